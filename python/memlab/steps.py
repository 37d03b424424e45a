"""Training steps and their phases, found without being told.

Owns the marks of kind step and phase. A step ends with the step of the optimizer that stepped first; the next
begins there, but is written only once something happens in it. `memlab.step()` takes over from the optimizers.
The hooks read events at the quiet moments that they mark.
"""

import threading
import weakref

from . import facts, records
from .warn import guarded


class Steps:
    """State of steps and phases of one recording."""

    def __init__(self, recorder, metadata):
        self._recorder, self._metadata = recorder, metadata
        self._lock = threading.RLock()
        self._number, self._pending, self._open = 0, None, False
        self._phase = None
        self._pace = None  # weak reference to the optimizer that sets the pace
        self._told = False
        self._handles = []

    def install(self, torch):
        """Hooks into the optimizers and into the beginning of backward passes."""
        from torch.optim import optimizer

        self._handles = [
            optimizer.register_optimizer_step_pre_hook(self._before_optimizer),
            optimizer.register_optimizer_step_post_hook(self._after_optimizer),
        ]
        self._handles.append(_BackwardWatch(torch.autograd, self))

    def remove(self):
        """Takes the hooks out again."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    # --- phases

    def enter(self, phase):
        """A phase begins; one that is under way ends."""
        if self._phase != phase and self._recorder.active:
            with self._lock:
                self.leave()
                self._begin_step()
                self._phase = phase
                self._recorder.mark(records.PHASE, phase, records.BEGIN)

    def leave(self):
        """The phase under way ends."""
        with self._lock:
            if self._phase is not None:
                self._recorder.mark(records.PHASE, self._phase, records.END)
                self._phase = None

    @property
    def phase(self):
        """The phase under way, or None."""
        return self._phase

    # --- steps

    @guarded
    def told(self):
        """`memlab.step()`: a step ends here and the next begins."""
        with self._lock:
            self.leave()
            self._told = True
            self._end_step(begin_now=True)
        self._recorder.at_step()

    def _begin_step(self):
        if not self._open and not self._told:
            self._number += 1
            self._recorder.mark_at(self._pending or facts.now_us(), records.STEP, str(self._number), records.BEGIN)
            self._open, self._pending = True, None

    def _end_step(self, begin_now=False):
        if self._open:
            self._recorder.mark(records.STEP, str(self._number), records.END)
        self._open, self._pending = False, facts.now_us()
        if begin_now:
            self._number += 1
            self._recorder.mark(records.STEP, str(self._number), records.BEGIN)
            self._open, self._pending = True, None

    # --- hooks

    @guarded
    def _before_optimizer(self, optimizer, args, kwargs):
        self.enter("optimizer")
        if self._metadata is not None:
            self._metadata(f"memlab:optimizer:{type(optimizer).__name__}")
        self._recorder.at_step()

    @guarded
    def _after_optimizer(self, optimizer, args, kwargs):
        if self._metadata is not None:
            self._metadata("")
        with self._lock:
            self.leave()
            if self._pace is None or self._pace() is None:
                self._pace = weakref.ref(optimizer)
            if self._pace() is optimizer and not self._told:
                self._end_step()

    @guarded
    def before_backward(self, tensors):
        """A backward pass begins. Its nodes that belong to no module must not keep the last one's name."""
        self.enter("backward")
        if self._metadata is not None:
            for tensor in tensors:
                _label_outside(getattr(tensor, "grad_fn", None), self._metadata)

    @guarded
    def after_backward(self):
        """The backward pass is over."""
        if self._phase == "backward":
            self.leave()


def _label_outside(node, set_metadata):
    if node is not None and "memlab" not in node.metadata:
        node.metadata["memlab"] = True
        node.register_prehook(lambda gradients: set_metadata("memlab:backward:"))


class _BackwardWatch:
    """Stands before `torch.autograd`'s way into the engine; the engine itself is untouched."""

    def __init__(self, autograd, steps):
        self._autograd, self._original = autograd, getattr(autograd, "_engine_run_backward", None)
        original = self._original
        if original is None:
            return

        def _engine_run_backward(tensors, *args, **kwargs):
            steps.before_backward(tensors)
            try:
                return original(tensors, *args, **kwargs)
            finally:
                steps.after_backward()

        self._ours = autograd._engine_run_backward = _engine_run_backward

    def remove(self):
        """Puts the original back, unless somebody else stands there by now."""
        if self._original is not None and self._autograd._engine_run_backward is self._ours:
            self._autograd._engine_run_backward = self._original
