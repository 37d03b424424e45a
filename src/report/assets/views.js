// Mounts the interactive views of a page and ties those of one device together. `section.memlab` on a view's
// section is its controller, for tests and for people at the console.

// `devices` are decoded blobs in the order of the timelines' sections; null where there is none. Views are mounted
// one per task, so that the page answers between them.
async function mountViews(root, report, devices) {
  await firstPaint();
  const places = Array.from(root.querySelectorAll('.view.timeline'), section => section.dataset.device);
  for (const [index, blob] of devices.entries()) {
    if (!blob) continue;
    const device = new Device(blob);
    const focus = new Focus(device);
    for (const [name, mount] of [['timeline', mountTimeline], ['state', mountState], ['flame', mountFlame]]) {
      const section = root.querySelector(`#${name}-${places[index]}`);
      if (section) mount(section, device, focus);
      await new Promise(resolve => setTimeout(resolve));
    }
  }
}

// The page is shown before the views are computed. Where no frame comes (a hidden tab), it goes on all the same.
function firstPaint() {
  return new Promise(resolve => {
    requestAnimationFrame(() => setTimeout(resolve));
    setTimeout(resolve, 300);
  });
}

function mountTimeline(section, device, focus) {
  const timeline = new Timeline(section, device, focus);
  section.memlab = {
    timeline, device, focus,
    setView: (from, to) => timeline.setView(from, to),
    setMoment: moment => timeline.goTo(moment),
    setGrouping: name => timeline.setGrouping(name),
    setAxis: mode => timeline.setAxis(mode),
    goToEvent: event => timeline.goToEvent(event),
    // What is known at a moment, as plain values.
    describe: moment => ({ moment, totals: device.totalsAt(moment), changes: device.changes(moment).map(({ rows, row, ...rest }) => rest) }),
  };
}

function mountState(section, device, focus) {
  const state = new StateView(section, device, focus);
  section.memlab = { state, device, focus, setMoment: moment => focus.setMoment(moment), sums: () => state.sums() };
}

function mountFlame(section, device, focus) {
  const flame = new Flame(section, device, focus);
  section.memlab = { flame, device, focus, search: text => flame.search(text), setMeasure: name => flame.setMeasure(name) };
}
