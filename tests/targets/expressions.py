"""Expressions with what numpy makes of them: computed by every target, compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

f4, f8, c8, c16 = np.float32, np.float64, np.complex64, np.complex128
i1, i2, i4, i8, u1, u2, u4, u8 = (
    np.int8,
    np.int16,
    np.int32,
    np.int64,
    np.uint8,
    np.uint16,
    np.uint32,
    np.uint64,
)

N = 12


@dataclass(frozen=True)
class Case:
    """``out[i] = text``, and the same in numpy; ``i`` is an argument there."""

    text: str
    dtypes: dict[str, Any]
    expected: Callable[..., Any]

    @property
    def instruction(self) -> str:
        return f"out[i] = {self.text}"

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return arguments: positive and negative numbers, no zero, the same always."""
        steps = np.arange(N)
        values = np.where(steps % 3 == 1, -1.0, 1.0) * (1 + steps % 5 + 0.25 * (steps % 4))
        arrays = {}
        for k, (name, dtype) in enumerate(self.dtypes.items()):
            numbers = np.roll(values, k)
            kind = np.dtype(dtype).kind
            if kind == "u":
                numbers = np.abs(numbers)
            if kind == "c":
                numbers = numbers + 0.5j * np.roll(numbers, 1)
            arrays[name] = (
                np.trunc(numbers).astype(dtype) if kind in "iu" else numbers.astype(dtype)
            )
        return arrays


def case(text: str, expected: Callable[..., Any], **dtypes: Any) -> Case:
    return Case(text, dtypes, expected)


CASES = [
    # what numbers and types become
    case("2*a[i]", lambda i, a: f4(2) * a, a=f4),
    case("i*a[i]", lambda i, a: i * a, a=f4),
    case("a[i] + b[i]", lambda i, a, b: a.astype(i8) + b, a=u4, b=i4),
    case("a[i]*b[i]*c[i]", lambda i, a, b, c: a.astype(f8) * b * c, a=i8, b=f4, c=f4),
    case("a[i] + b[i] > 5", lambda i, a, b: (a + b) > 5, a=i2, b=i2),
    case("(100*a[i]*b[i]) // 2", lambda i, a, b: (100 * a * b) // 2, a=u1, b=u1),
    case("a[i]*a[i]*a[i]*a[i]*b[i]", lambda i, a, b: a * a * a * a * b, a=u1, b=i4),
    case("a[i]*a[i]*a[i]*a[i]*a[i]*b[i]", lambda i, a, b: a * a * a * a * a * b, a=i1, b=f8),
    case("abs(a[i] - 126 + b[i]) + i", lambda i, a, b: abs(a - i1(126) + b) + i, a=i1, b=i1),
    # a boolean that is subtracted does not change the type
    case("a[i] - (b[i] > 0)", lambda i, a, b: a - (b > 0).astype(u8), a=u8, b=i4),
    case("a[i] - (b[i] > 0)", lambda i, a, b: a - (b > 0).astype(u1), a=u1, b=i4),
    case("(a[i] > 2) - (b[i] > 0)", lambda i, a, b: (a > 2).astype(i4) - (b > 0), a=u1, b=i4),
    case("a[i] - b[i] - (c[i] - a[i])", lambda i, a, b, c: a - b - (c - a), a=f8, b=f8, c=f8),
    case("-a[i] - (-b[i])*2", lambda i, a, b: -a + 2 * b, a=f4, b=f4),
    case("cast(float32, a[i]) / 3", lambda i, a: a.astype(f4) / f4(3), a=i4),
    # integers with a type, and such that would overflow an int
    case("3l*i*1000000000 - i*3l*1000000000 + 7l*i", lambda i: 7 * i.astype(i8)),
    case("3l*i*1000000000", lambda i: 3 * i.astype(i8) * 10**9),
    case("cast(int64, 3)*i*1000000000", lambda i: 3 * i.astype(i8) * 10**9),
    case("1ul << (5*i)", lambda i: u8(1) << (5 * i).astype(u8)),
    case("cast(uint64, 1) << (a[i] & 63)", lambda i, a: u8(1) << (a & 63).astype(u8), a=i4),
    case("(1l << (5*i)) // 2 + (1u << i)", lambda i: (1 << (5 * i).astype(i8)) // 2 + (1 << i)),
    case("2000000000*a[i]*3 - 5", lambda i, a: 2000000000 * a * 3 - 5, a=i8),
    case("2*2000000000*a[i]", lambda i, a: 4000000000 * a, a=i8),
    case(
        "(a[i] if i < 3 else 5l)*1000000000", lambda i, a: np.where(i < 3, a, i8(5)) * 10**9, a=i8
    ),
    case("(4l if i < 3 else 5l)*1000000000", lambda i: np.where(i < 3, i8(4), i8(5)) * 10**9),
    case("a[i] < -1l", lambda i, a: a.astype(i8) < -1, a=u4),
    case("(7u - 8u) // 2", lambda i: np.full(N, 2147483647, u4)),
    case("-(a[i] // 3) + (-(a[i] * 2)) % 5", lambda i, a: (-(a // 3)) + (-(a * 2)) % u4(5), a=u4),
    case("(~0u) // 2 + a[i]", lambda i, a: a + u4(2**31 - 1), a=u4),
    # unsigned integers are negated in their own type, before they are converted
    case("a[i] + (-b[i])", lambda i, a, b: a + (-b).astype(i8), a=i8, b=u4),
    case("a[i] - (-b[i]) + (-(-b[i]))", lambda i, a, b: a - (-b) + b, a=f8, b=u8),
    case("a[i] + (-2*b[i]) + (-a[i])*2", lambda i, a, b: a + u1(254) * b - 2 * a, a=i8, b=u1),
    case("-(a[i]*b[i]) + a[i]", lambda i, a, b: -(a * b) + a, a=u4, b=i8),
    case("-(2*a[i]*b[i])", lambda i, a, b: -(2 * a * b), a=u1, b=i4),
    case("-a[i] // 3 + (-a[i])*2", lambda i, a: -a // u8(3) + (-a) * u8(2), a=u8),
    case("(-a[i] > 5) + (b[i] < -a[i])", lambda i, a, b: (0 + (-a > 5)) + (b < -a), a=u4, b=i4),
    case("cast(int64, -a[i]) + (-b[i])", lambda i, a, b: (-a).astype(i8) - b, a=u2, b=i2),
    case(
        "a[i] - 200 - 200*b[i] + (-(a[i]*b[i]))",
        lambda i, a, b: a - u1(200) - u1(200) * b - a * b,
        a=u1,
        b=u1,
    ),
    case("a[i]*(-(b[i] > 0)) + (-(b[i] > 0))", lambda i, a, b: -(a + u1(1)) * (b > 0), a=u1, b=i4),
    case("3000000000*a[i] - a[i]", lambda i, a: u4(3000000000) * a - a, a=u4),
    case("a[i] & 0xFFul | b[i]", lambda i, a, b: (a & u8(255)) | b.astype(u8), a=u8, b=i4),
    case("1.0*i*i*1000000", lambda i: i.astype(f8) * i * 1000000),
    case("a[i] - 1.0*i*i*1000000", lambda i, a: a - 1.0 * i * i * 1000000, a=f8),
    # constants are computed as in Python
    case("1 << 40", lambda i: np.full(N, 2**40)),
    case("(2**40 + i) % 2**35", lambda i: (2**40 + i.astype(i8)) % 2**35),
    case("2147483647 + 1", lambda i: np.full(N, 2**31)),
    case("a[i] + (200 + 100)", lambda i, a: a + i4(300), a=u1),
    case("a[i] & (2**64 - 1)", lambda i, a: a, a=u8),
    case("2**(-1)*a[i] + 2**(-2)", lambda i, a: a / 2 + 0.25, a=f8),
    case("a[i]*10**20", lambda i, a: a * 1e20, a=f4),
    # division
    case("a[i] / b[i]", lambda i, a, b: a / b, a=i4, b=i4),
    case("a[i] / 4", lambda i, a: a / 4, a=i8),
    case("a[i] // b[i]", lambda i, a, b: a // b, a=i4, b=i4),
    case("a[i] % b[i]", lambda i, a, b: a % b, a=i8, b=i8),
    case("a[i] // b[i] + a[i] % b[i]", lambda i, a, b: a // b + a % b, a=u4, b=u4),
    case("a[i] // b[i]", lambda i, a, b: a // b, a=f4, b=f4),
    case("(0.1f*i) // (0.1f*b[i])", lambda i, b: (f4(0.1) * i.astype(f4)) // (f4(0.1) * b), b=f4),
    case("(0.3d*a[i]) // 0.1d", lambda i, a: (0.3 * a) // 0.1, a=f8),
    case("1 / ((a[i] - a[i]) % b[i])", lambda i, a, b: 1 / np.copysign(0, b), a=f8, b=f8),
    case("b[i] / (b[i] - b[i]) // b[i]", lambda i, b: np.full(N, np.nan, f4), b=f4),
    case("a[i] % b[i]", lambda i, a, b: np.mod(a, b), a=f8, b=f8),
    case("(i + 1) % n + (n - 1 - i) // 4", lambda i: (i + 1) % N + (N - 1 - i) // 4),
    # powers
    case("a[i]**2 + a[i]**3", lambda i, a: a**2 + a**3, a=f4),
    case("a[i]**(-2)", lambda i, a: 1 / a**2, a=f8),
    case(
        "abs(a[i])**0.5 + abs(a[i])**b[i]", lambda i, a, b: abs(a) ** 0.5 + abs(a) ** b, a=f8, b=i4
    ),
    case("a[i]**b[i]", lambda i, a, b: a ** b.astype(i4), a=i4, b=u1),
    case("a[i]**5 + a[i]**1 + a[i]**0", lambda i, a: a**5 + a + 1, a=i8),
    # bits
    case("a[i] & 3 | 1 << b[i]", lambda i, a, b: (a & 3) | (1 << b.astype(i4)), a=i4, b=u1),
    case("(a[i] ^ b[i]) >> 1", lambda i, a, b: (a ^ b) >> 1, a=i4, b=i4),
    case("~a[i] & 255", lambda i, a: ~a & 255, a=i4),
    case("(a[i] & b[i]) == 2", lambda i, a, b: (a & b) == 2, a=i4, b=i4),
    # conditions
    case("a[i] if a[i] > 0 else 0", lambda i, a: np.where(a > 0, a, 0), a=f4),
    case(
        "a[i] if i < 3 else (b[i] if i < 6 else 1)",
        lambda i, a, b: np.where(i < 3, a, np.where(i < 6, b, 1)),
        a=f4,
        b=f8,
    ),
    case(
        "a[i] > 0 and (b[i] == 1 or not (a[i] < b[i]))",
        lambda i, a, b: (a > 0) & ((b == 1) | ~(a < b)),
        a=f4,
        b=i4,
    ),
    case("a[i] < b[i]", lambda i, a, b: a.astype(i8) < b, a=i4, b=u4),
    case("(a[i] < 0) == (b[i] < 0)", lambda i, a, b: (a < 0) == (b < 0), a=f4, b=f4),
    # functions
    case("min(a[i], b[i], 2)", lambda i, a, b: np.minimum(np.minimum(a, b), 2), a=i4, b=i4),
    case(
        "max(a[i], 0)*min(b[i], 1)", lambda i, a, b: np.maximum(a, 0) * np.minimum(b, 1), a=f4, b=f4
    ),
    case("max(a[i], b[i])", lambda i, a, b: np.maximum(a, b), a=i8, b=i4),
    case(
        "min(a[i], 2) + max(a[i] + b[i], 3)",
        lambda i, a, b: np.minimum(a, 2) + np.maximum(a + b, u1(3)),
        a=u1,
        b=u1,
    ),
    case(
        "min(a[i], 2) + max(b[i], i)",
        lambda i, a, b: np.minimum(a, 2) + np.maximum(b, i),
        a=i8,
        b=u4,
    ),
    case(
        "max(a[i], -7 // 2) + min(b[i], 1 << 1) - min(a[i], 2*3)",
        lambda i, a, b: np.maximum(a, -4) + np.minimum(b, 2) - np.minimum(a, 6),
        a=f4,
        b=f4,
    ),
    case("max(a[i], 7 // 2, 5 - 4)", lambda i, a: np.maximum(a, 3), a=i8),
    case("max(a[i], b[i], 2)", lambda i, a, b: np.maximum(np.maximum(a, b), 2), a=i2, b=u1),
    case("abs(a[i]) + abs(b[i])", lambda i, a, b: abs(a) + abs(b), a=i4, b=f8),
    case("abs(a[i]) - 1", lambda i, a: a - 1.0, a=u4),
    case("sin(i) + exp(a[i] / 4)", lambda i, a: np.sin(i) + np.exp(a / 4), a=f4),
    case(
        "atan2(a[i], 2) + fma(a[i], b[i], 1)",
        lambda i, a, b: np.arctan2(a, 2) + a * b + 1,
        a=f8,
        b=f8,
    ),
    case("isnan(a[i]) + signbit(a[i])", lambda i, a: 0 + np.signbit(a), a=f4),
    case(
        "lrint(a[i]) + lround(b[i])",
        lambda i, a, b: np.rint(a) + np.trunc(b + np.copysign(0.5, b)),
        a=f4,
        b=f8,
    ),
    case("1 / rsqrt(abs(a[i]))", lambda i, a: np.sqrt(abs(a)), a=f8),
    # complex numbers
    case(
        "a[i]*b[i] + 2*a[i] - a[i] / b[i] + 1",
        lambda i, a, b: a * b + 2 * a - a / b + 1,
        a=c8,
        b=f4,
    ),
    case("b[i] - a[i] + b[i] / a[i] * a[i]", lambda i, a, b: b - a + b, a=c16, b=f8),
    case("a[i]*b[i] - 1.5j*a[i]", lambda i, a, b: a * b - 1.5j * a, a=c16, b=c8),
    case("a[i] / b[i] + i", lambda i, a, b: a / b + i, a=c16, b=c16),
    case("exp(a[i])*sqrt(a[i]) + a[i]**2", lambda i, a: np.exp(a) * np.sqrt(a) + a**2, a=c16),
    case("abs(a[i]) + real(a[i]) - imag(conj(a[i]))", lambda i, a: abs(a) + a.real + a.imag, a=c8),
    case("real(a[i]) + imag(a[i])", lambda i, a: a, a=f8),
    case("a[i] == b[i]", lambda i, a, b: a == b, a=c16, b=c16),
    case("real(a[i]) if a[i] != 1 else 2", lambda i, a: np.where(a != 1, a.real, 2), a=c8),
    case("a[i] if i < 5 else 1", lambda i, a: np.where(i < 5, a, 1), a=c8),
    case("(cast(complex64, a[i] - a[i]) + 0)**2 + b[i]", lambda i, a, b: b, a=f4, b=c8),
    case("(1.0/3.0)*a[i] + a[i]*max(1.5, 2.5)", lambda i, a: (1 / 3 + 2.5) * a, a=c8),
    case("a[i]**(1.0/2.0) - 2/3", lambda i, a: np.sqrt(a) - 2 / 3, a=c8),
    case("(1 if a[i] else 2) + (b[i] and 1)", lambda i, a, b: np.full(N, 2), a=f4, b=c8),
    case("cast(bool, 0.25*b[i]) + cast(bool, a[i])", lambda i, a, b: np.full(N, 2), a=c8, b=f4),
    case("2/3*a[i]", lambda i, a: f4(2 / 3) * a, a=f4),
    case("cast(complex128, a[i]) + 1", lambda i, a: a.astype(c16) + 1, a=c8),
]
