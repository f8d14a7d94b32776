"""Random123's generators: published vectors, a reference written from the paper, all targets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import kgen as lp
from kgen.errors import TypeInferenceFailure
from kgen.ir.codec import decode, encode
from kgen.ir.random123 import GENERATORS, Generator
from kgen.ir.vector_values import VECTOR_MAKERS, numbers_of, vector_type
from kgen.lowering import generate_module
from tests.targets.support import compile_c, compile_cuda, merge_sources

if TYPE_CHECKING:
    import pyopencl as cl

#: From the file kat_vectors of Random123: counters and keys, then what comes out.
KNOWN = """
philox2x32 00000000 00000000 00000000   ff1dae59 6cd10df2
philox2x32 ffffffff ffffffff ffffffff   2c3f628b ab4fd7ad
philox2x32 243f6a88 85a308d3 13198a2e   dd7ce038 f62a4c12
philox2x64 0000000000000000 0000000000000000 0000000000000000   ca00a0459843d731 66c24222c9a845b5
philox2x64 ffffffffffffffff ffffffffffffffff ffffffffffffffff   65b021d60cd8310f 4d02f3222f86df20
philox2x64 243f6a8885a308d3 13198a2e03707344 a4093822299f31d0   0a5e742c2997341c b0f883d38000de5d
philox4x32 00000000 00000000 00000000 00000000 00000000 00000000
           6627e8d5 e169c58d bc57ac4c 9b00dbd8
philox4x32 ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff
           408f276d 41c83b0e a20bc7c6 6d5451fd
philox4x32 243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0
           d16cfe09 94fdcceb 5001e420 24126ea1
philox4x64 0000000000000000 0000000000000000 0000000000000000 0000000000000000
           0000000000000000 0000000000000000
           16554d9eca36314c db20fe9d672d0fdc d7e772cee186176b 7e68b68aec7ba23b
philox4x64 ffffffffffffffff ffffffffffffffff ffffffffffffffff ffffffffffffffff
           ffffffffffffffff ffffffffffffffff
           87b092c3013fe90b 438c3c67be8d0224 9cc7d7c69cd777b6 a09caebf594f0ba0
philox4x64 243f6a8885a308d3 13198a2e03707344 a4093822299f31d0 082efa98ec4e6c89
           452821e638d01377 be5466cf34e90c6c
           a528f45403e61d95 38c72dbd566e9788 a5a1610e72fd18b5 57bd43b5e52b7fe6
threefry2x32 00000000 00000000 00000000 00000000   6b200159 99ba4efe
threefry2x32 ffffffff ffffffff ffffffff ffffffff   1cb996fc bb002be7
threefry2x32 243f6a88 85a308d3 13198a2e 03707344   c4923a9c 483df7a0
threefry2x64 0000000000000000 0000000000000000 0000000000000000 0000000000000000
             c2b6e3a8c2c69865 6f81ed42f350084d
threefry2x64 ffffffffffffffff ffffffffffffffff ffffffffffffffff ffffffffffffffff
             e02cb7c4d95d277a d06633d0893b8b68
threefry2x64 243f6a8885a308d3 13198a2e03707344 a4093822299f31d0 082efa98ec4e6c89
             263c7d30bb0f0af1 56be8361d3311526
threefry4x32 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000
             9c6ca96a e17eae66 fc10ecd4 5256a7d8
threefry4x32 ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff
             2a881696 57012287 f6c7446e a16a6732
threefry4x32 243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0 082efa98 ec4e6c89
             59cd1dbb b8879579 86b5d00c ac8b6d84
threefry4x64 0000000000000000 0000000000000000 0000000000000000 0000000000000000
             0000000000000000 0000000000000000 0000000000000000 0000000000000000
             09218ebde6c85537 55941f5266d86105 4bd25e16282434dc ee29ec846bd2e40b
threefry4x64 ffffffffffffffff ffffffffffffffff ffffffffffffffff ffffffffffffffff
             ffffffffffffffff ffffffffffffffff ffffffffffffffff ffffffffffffffff
             29c24097942bba1b 0371bbfb0f6f4e11 3c231ffa33f83a1c cd29113fde32d168
threefry4x64 243f6a8885a308d3 13198a2e03707344 a4093822299f31d0 082efa98ec4e6c89
             452821e638d01377 be5466cf34e90c6c be5466cf34e90c6c c0ac29b7c97c50dd
             a7e8fde591651bd9 baafd0c30138319b 84a5c1a729e685b9 901d406ccebc1ba4
"""
WORDS = [name for name, generator in GENERATORS.items() if generator.real is None]
Array = np.ndarray[Any, Any]


def known(generator: Generator) -> tuple[Array, Array, Array]:
    """Return the published counters, keys and results of a generator, one set in each row."""
    entries = " ".join(KNOWN.split()).replace(" philox", "\nphilox").replace(" three", "\nthree")
    name = generator.name.partition("_")[0]
    rows = [line.split()[1:] for line in entries.split("\n") if line.split()[0] == name]
    numbers = np.array([[int(word, 16) for word in row] for row in rows], f"u{generator.bits // 8}")
    first, second = generator.words, generator.words + generator.key_words
    return numbers[:, :first], numbers[:, first:second], numbers[:, second:]


def some(generator: Generator) -> tuple[Array, Array]:
    """Return counters and keys: the published ones and others, the first with carries."""
    counters, keys, _ = known(generator)
    draw = np.random.default_rng(4)
    dtype = counters.dtype
    high = np.iinfo(dtype).max
    more = draw.integers(0, high, (30, generator.words), dtype, endpoint=True)
    for row in range(generator.words):
        more[row, : row + 1] = high
    more_keys = draw.integers(0, high, (30, generator.key_words), dtype, endpoint=True)
    return np.concatenate([counters, more]), np.concatenate([keys, more_keys])


def vector(count: int, bits: int, array: str) -> str:
    if count == 1:
        return f"{array}[i, 0]"
    name = {32: "uint", 64: "ulong"}[bits]
    return f"make_{name}{count}({', '.join(f'{array}[i, {k}]' for k in range(count))})"


def kernel_of(generator: Generator, target: Any) -> Any:
    """Return a kernel that draws once for each row of counters and keys."""
    words, bits = generator.words, generator.bits
    stores = [f"out[i, {k}] = drawn.s{k} {{dep=draw}}" for k in range(words)]
    stores += [f"next[i, {k}] = ctr.s{k} {{dep=draw}}" for k in range(words)]
    result = generator.real or f"uint{bits}"
    return lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        f"""
        for i
            <> key = {vector(generator.key_words, bits, "keys")}
            <> ctr = {vector(words, bits, "counters")} {{id=start}}
            <> drawn, ctr = {generator.name}(ctr, key) {{id=draw, dep=start}}
        end
        """
        + "\n".join(stores),
        [
            lp.GlobalArg("counters", f"uint{bits}", shape=("n", words)),
            lp.GlobalArg("keys", f"uint{bits}", shape=("n", generator.key_words)),
            lp.GlobalArg("out", result, shape=("n", words), is_input=False),
            lp.GlobalArg("next", f"uint{bits}", shape=("n", words), is_input=False),
            ...,
        ],
        name=f"draw_{generator.name}",
        target=target,
    )


def successors(counters: Array, bits: int) -> Array:
    rows = []
    for row in counters:
        number = sum(int(word) << bits * k for k, word in enumerate(row)) + 1
        rows.append([number >> bits * k & 2**bits - 1 for k in range(len(row))])
    return np.array(rows, counters.dtype)


# -- the algorithms, from the paper ------------------------------------------------------------


def philox(counter: Sequence[int], key: Sequence[int], bits: int) -> list[int]:
    mask = 2**bits - 1
    golden = {32: (0x9E3779B9, 0xBB67AE85), 64: (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)}[bits]
    factors = {
        (2, 32): [0xD256D193],
        (4, 32): [0xD2511F53, 0xCD9E8D57],
        (2, 64): [0xD2B74407B1CE6E93],
        (4, 64): [0xD2E7470EE14C6C93, 0xCA5A826395121157],
    }[len(counter), bits]
    x, k = list(counter), list(key)
    for _ in range(10):
        products = [factor * x[2 * n] for n, factor in enumerate(factors)][::-1]
        x = [
            word
            for n, product in enumerate(products)
            for word in (product >> bits ^ x[2 * n + 1] ^ k[n], product & mask)
        ]
        k = [(word + golden[n]) & mask for n, word in enumerate(k)]
    return x


def threefry(counter: Sequence[int], key: Sequence[int], bits: int) -> list[int]:
    mask, count = 2**bits - 1, len(counter)
    turns = {
        (2, 32): "13 15 26 6 17 29 16 24",
        (4, 32): "10 26 11 21 13 27 23 5 6 20 17 11 25 10 18 20",
        (2, 64): "16 42 12 31 16 32 24 21",
        (4, 64): "14 16 52 57 23 40 5 37 25 33 46 12 58 22 32 32",
    }[count, bits].split()
    k = [*key, {32: 0x1BD11BDA, 64: 0x1BD11BDAA9FC1A22}[bits]]
    for word in key:
        k[count] ^= word
    x = [(a + b) & mask for a, b in zip(counter, key, strict=True)]
    for step in range(20):
        for n in range(count // 2):
            turn = int(turns[(step * (count // 2) + n) % len(turns)])
            a, b = (2 * n, 2 * n + 1) if step % 2 == 0 else (2 * n, (2 * n + 3) % count)
            x[a] = (x[a] + x[b]) & mask
            x[b] = (x[b] << turn | x[b] >> bits - turn) & mask ^ x[a]
        if step % 4 == 3:
            s = step // 4 + 1
            x = [(word + k[(s + n) % (count + 1)]) & mask for n, word in enumerate(x)]
            x[-1] = (x[-1] + s) & mask
    return x


def reference(generator: Generator, counters: Array, keys: Array) -> Array:
    function = philox if generator.family == "philox" else threefry
    rows = zip(counters.tolist(), keys.tolist(), strict=True)
    return np.array([function(*row, generator.bits) for row in rows], counters.dtype)


def check(generator: Generator, drawn: Array, following: Array) -> None:
    counters, keys = some(generator)
    words = reference(generator, counters, keys)
    assert np.array_equal(following, successors(counters, generator.bits))
    if generator.real is None:
        assert np.array_equal(drawn, words)
        assert np.array_equal(drawn[:3], known(generator)[2])
        return
    assert drawn.dtype == generator.real
    exact = [[int(word) / 2.0**generator.bits for word in row] for row in words]
    digits = {"float32": 24, "float64": 53}[generator.real]
    assert np.all(drawn < 1)
    assert np.all(np.abs(drawn - np.array(exact)) <= 2.0 ** -min(digits, 53))


# -- tests ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WORDS)
def test_the_reference_has_the_published_vectors(name: str) -> None:
    counters, keys, results = known(GENERATORS[name])
    assert len(results) == 3
    assert np.array_equal(reference(GENERATORS[name], counters, keys), results)


def test_the_reference_is_numpys_philox() -> None:
    counters, keys = some(GENERATORS["philox4x64"])
    for counter, key in zip(counters, keys, strict=True):
        # numpy's increments its counter before it draws
        theirs: Any = np.random.Philox(counter=counter, key=key)
        ours = philox(successors(counter[None], 64)[0].tolist(), key.tolist(), 64)
        assert theirs.random_raw(4).tolist() == ours


@pytest.mark.parametrize("name", GENERATORS)
def test_words_and_counters_on_the_host(name: str) -> None:
    generator = GENERATORS[name]
    counters, keys = some(generator)
    knl = kernel_of(generator, lp.ExecutableCTarget())
    _, (drawn, following) = knl(counters=counters, keys=keys)
    check(generator, drawn, following)


@pytest.mark.parametrize("name", GENERATORS)
def test_words_and_counters_on_opencl(name: str, opencl_queue: cl.CommandQueue) -> None:
    generator = GENERATORS[name]
    counters, keys = some(generator)
    knl = lp.tag_inames(kernel_of(generator, lp.PyOpenCLTarget()), {"i": "g.0"})
    _, (drawn, following) = knl(opencl_queue, counters=counters, keys=keys)
    check(generator, drawn, following)


def test_words_and_counters_on_cuda(cuda_context: Any) -> None:
    pytest.importorskip("pycuda.driver")
    for generator in GENERATORS.values():
        counters, keys = some(generator)
        knl = lp.tag_inames(kernel_of(generator, lp.PyCudaTarget()), {"i": "g.0"})
        _, (drawn, following) = knl(counters=counters, keys=keys)
        check(generator, drawn, following)


def test_code_of_all_generators_compiles(nvcc: str, tmp_path: Path) -> None:
    for target, compile_ in (
        (lp.CTarget(), lambda text: compile_c(text, tmp_path)),
        (lp.CudaTarget(), lambda text: compile_cuda(text, tmp_path, nvcc)),
    ):
        modules = [generate_module(kernel_of(g, target)) for g in GENERATORS.values()]
        compile_(merge_sources(module.device_source for module in modules))


EXAMPLE = """
for i
    <> key2 = make_uint2(i, 324830944) {inames=i}
    <> key4 = make_uint4(i, 324830944, 234181, 2233) {inames=i}
    <> ctr = make_uint4(0, 1, 2, 3) {inames=i,id=init_ctr}
    <> real, ctr = philox4x32_f32(ctr, key2) {id=realpart,dep=init_ctr}
    <> imag, ctr = threefry4x32_f32(ctr, key4) {id=imagpart,dep=init_ctr:realpart}
    out[i, 0] = real.s0 + 1j * imag.s0
    out[i, 1] = real.s1 + 1j * imag.x.y
end
"""


def test_complex_numbers_from_two_generators(opencl_queue: cl.CommandQueue) -> None:
    text = EXAMPLE.replace("imag.x.y", "imag.y")
    args = [lp.GlobalArg("out", np.complex128, shape="n, 2"), ...]
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", text, args)
    _, (on_opencl,) = knl(opencl_queue, n=500)
    _, (on_host,) = knl.copy(target=lp.ExecutableCTarget())(n=500)
    assert np.array_equal(on_opencl.get(), on_host)
    counter = philox([0, 1, 2, 3], [7, 324830944], 32)
    assert on_host[7, 0].real == (counter[0] >> 8) / 2.0**24
    following = threefry([1, 1, 2, 3], [7, 324830944, 234181, 2233], 32)
    assert on_host[7, 1].imag == (following[1] >> 8) / 2.0**24
    assert abs(on_host.mean() - (0.5 + 0.5j)) < 0.05


def test_a_number_of_a_vector_has_no_numbers() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", EXAMPLE, [lp.GlobalArg("out", "c16"), ...])
    with pytest.raises(TypeInferenceFailure, match="has no field 'y'"):
        lp.generate_code_v2(knl)


def test_keys_of_another_length_are_refused() -> None:
    line = "<> a, b = philox4x32(make_uint4(0, 0, 0, 0), make_uint4(0, 0, 0, 0))"
    knl = lp.make_kernel("{ [i]: 0 <= i < 4 }", [f"{line} {{inames=i}}", "out[i] = a.s0"])
    with pytest.raises(TypeInferenceFailure, match="takes a key of the type of make_uint2"):
        lp.generate_code_v2(knl)


def test_counters_in_memory(opencl_queue: cl.CommandQueue) -> None:
    """A counter may be an element of an array, which goes on from launch to launch."""
    counter = GENERATORS["philox4x32"].counter_type
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "<> drawn, state[i] = philox4x32(state[i], make_uint2(i, 5)) {id=draw}\n"
        "out[i] = drawn.s0 {dep=draw}",
        [lp.GlobalArg("state", counter, shape="n"), ...],
    )
    states = [np.zeros(3, counter.dtype) for _ in range(2)]
    _, result = knl(opencl_queue, state=states[0])
    assert result[0]["x"].tolist() == [1, 1, 1]
    host = knl.copy(target=lp.ExecutableCTarget())
    host(state=states[1])
    _, (state, drawn) = host(state=states[1])
    assert state["s0"].tolist() == [2, 2, 2]
    assert drawn.tolist() == [philox([1, 0, 0, 0], [i, 5], 32)[0] for i in range(3)]


@pytest.mark.parametrize("count", [2, 4, 8, 16])
def test_vectors_of_all_types(count: int, nvcc: str, tmp_path: Path) -> None:
    for target in (lp.CTarget(), lp.CudaTarget()):
        sources = []
        for name, made in VECTOR_MAKERS.items():
            numbers_in = numbers_of(made.dtype)
            assert numbers_in is not None
            if numbers_in[1] != count:
                continue
            numbers = ", ".join(f"i + {k}" for k in range(count))
            knl = lp.make_kernel(
                "{ [i]: 0 <= i < n }",
                [f"<> v = {name}({numbers})", f"out[i] = v.s{count - 1}"],
                name=f"use_{name}",
                target=target,
            )
            module = generate_module(knl)
            sources.append(module.device_source)
            (result,) = [info for info in module.arguments if info.name == "out"]
            assert result.dtype == numbers_in[0]
        source = merge_sources(sources)
        if isinstance(target, lp.CudaTarget):
            compile_cuda(source, tmp_path, nvcc)
        else:
            compile_c(source, tmp_path)


def test_vectors_of_other_numbers_differ_in_their_digests() -> None:
    one, two = (vector_type(np.dtype(name), 4) for name in ("float32", "uint32"))
    kernels = [
        lp.make_kernel("{ [i]: 0 <= i < 4 }", "b[i] = a[i].s0", [lp.GlobalArg("a", t), ...])
        for t in (one, two)
    ]
    assert kernels[0].digest() != kernels[1].digest()


def test_kernels_with_vectors_come_back_from_json() -> None:
    counter = vector_type(np.dtype("uint32"), 4)
    knl = lp.make_kernel("{ [i]: 0 <= i < 4 }", "b[i] = a[i].s0", [lp.GlobalArg("a", counter), ...])
    assert decode(encode(knl)) == knl


@pytest.mark.parametrize("name", ["philox4x32_f32", "philox2x64", "threefry4x32_f64"])
def test_numbers_in_lanes_are_those_drawn_one_by_one(name: str) -> None:
    generator = GENERATORS[name]
    maker = f"make_{'uint' if generator.bits == 32 else 'ulong'}{generator.words}"
    rest = ", 5" * (generator.words - 1)
    key = f"{maker}(1{', 2' * (generator.words - 1)})"
    if generator.family == "philox":
        key = "make_uint2(1, 2)" if generator.words == 4 else "7"
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        f"""for i
            <> counter = {maker}(i{rest})  {{id=start}}
            <> u, counter = {name}(counter, {key})  {{id=first, dep=start}}
            <> v, counter = {name}(counter, {key})  {{id=second, dep=first}}
            out[i] = cast(np.float64, u.s0) + cast(np.float64, v.s1)  {{dep=second}}
        end""",
        [lp.GlobalArg("out", np.float64, shape="n"), ...],
        target=lp.ExecutableCTarget(),
    )
    in_lanes = lp.split_iname(knl, "i", 8, inner_tag="vec")
    assert "omp simd" in lp.generate_code_v2(in_lanes).device_code()
    assert "u[" not in lp.generate_code_v2(in_lanes).device_code()
    _, (one_by_one,) = knl(n=1003)
    _, (found,) = in_lanes(n=1003)
    np.testing.assert_array_equal(found, one_by_one)
