"""Holds `inject/src/params.rs` and `inject/src/cupti.rs` against CUPTI's own headers.

Usage: layout.py CUPTI_INCLUDE CUDA_INCLUDE... (folders with generated_cuda_meta.h, and with cuda.h; of the wheels
nvidia-cuda-cupti and nvidia-cuda-runtime, or of a toolkit). Needs cc. Exit code 1: something differs.
"""

import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def functions():
    """Id, name and the offsets that are read (offset, bytes) of every function in params.rs."""
    with open(os.path.join(HERE, "..", "src", "params.rs")) as file:
        text = file.read()
    text = text[text.index("functions! {") :]
    # `pitched`, `location` and `array_bytes` read further fields of their own.
    extra = {"pitched(p)": [(8, 8), (16, 8), (24, 8)], "array_bytes(p": [(8, 8)]}
    for number, name, body in re.findall(r"^    (\d+) (\w+) \w+ \|p\| (.*?);\n", text, re.M | re.S):
        reads = [(int(at), 8) for at in re.findall(r"p\.(?:word|out)\((\d+)\)", body)]
        reads += [(int(at), 4) for at in re.findall(r"p\.int\((\d+)\)", body)]
        reads += [(int(at), 8) for at in re.findall(r"location\(p, (\d+)\)", body)]
        reads += [read for key, found in extra.items() if key in body for read in found]
        yield int(number), name, sorted(set(reads))


def structures(header):
    """Fields of every `NAME_params` in generated_cuda_meta.h."""
    with open(header) as file:
        text = file.read()
    for name, body in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+)_params;", text, re.S):
        yield body, re.findall(r"(\w+)(?:\[\d+\])?;", name)


def main():
    includes = sys.argv[1:]
    meta = next(path for path in (os.path.join(folder, "generated_cuda_meta.h") for folder in includes) if os.path.exists(path))
    fields = dict(structures(meta))
    with open(os.path.join(os.path.dirname(meta), "cupti_driver_cbid.h")) as file:
        named = set(re.findall(r"CUPTI_DRIVER_TRACE_CBID_(\w+)", file.read()))
    lines, known = [], []
    for number, name, reads in functions():
        struct = next((other for other in (name, f"{name}_v2", name.replace("_ptsz", "")) if other in fields), None)
        known.append((number, name, reads, struct))
        if name in named:
            lines.append(f'printf("{name} id %d\\n", CUPTI_DRIVER_TRACE_CBID_{name});')
        for field in fields.get(struct, []):
            lines.append(f'printf("{name} field %zu %zu\\n", offsetof({struct}_params, {field}), sizeof((({struct}_params *)0)->{field}));')
    data = "callbackSite functionName functionParams functionReturnValue symbolName context contextUid correlationData correlationId"
    for field in data.split():
        lines.append(f'printf("data {field} %zu\\n", offsetof(CUpti_CallbackData, {field}));')
    with tempfile.TemporaryDirectory() as scratch:
        source = os.path.join(scratch, "layout.c")
        with open(source, "w") as file:
            file.write("#include <stddef.h>\n#include <stdio.h>\n#include <cuda.h>\n#include <cupti.h>\n")
            file.write("int main(void) {\n" + "\n".join(lines) + "\nreturn 0;\n}\n")
        program = os.path.join(scratch, "layout")
        subprocess.run(["cc", "-w", *(f"-I{folder}" for folder in includes), "-o", program, source], check=True)
        output = subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()
    sys.exit(judge(known, [line.split() for line in output]))


def judge(known, words):
    wrong = 0
    for number, name, reads, struct in known:
        ids = [int(word[2]) for word in words if word[:2] == [name, "id"]]
        there = {(int(word[2]), int(word[3])) for word in words if word[:2] == [name, "field"]}
        bad = [read for read in reads if struct and read not in there]
        if not ids or not struct:
            state = "not in these headers"
        else:
            state = "ok" if ids == [number] and not bad else f"WRONG {ids} {bad}"
        wrong += state.startswith("WRONG")
        print(f"{name:36} {number:4} {state}")
    offsets = [int(word[2]) for word in words if word[0] == "data"]
    right = [0, 8, 16, 24, 32, 40, 48, 56, 64]
    print("CUpti_CallbackData", "ok" if offsets == right else f"WRONG {offsets}")
    return 1 if wrong or offsets != right else 0


if __name__ == "__main__":
    main()
