"""Reserved words of the C family."""

from __future__ import annotations

from typing import Final

__all__ = ["CPP_WORDS", "C_WORDS", "LIBRARY", "MACROS", "is_implementation_name"]

_C = """
    auto break case char const continue default do double else enum extern float for goto if
    inline int long register restrict return short signed sizeof static struct switch typedef
    union unsigned void volatile while asm typeof main
"""

#: The keywords of C11.
C_WORDS: Final = frozenset(_C.split())

_CPP = """
    alignas alignof and and_eq bitand bitor bool catch char8_t char16_t char32_t class co_await
    co_return co_yield compl concept const_cast consteval constexpr constinit decltype delete
    dynamic_cast explicit export false friend mutable namespace new noexcept not not_eq nullptr
    operator or or_eq private protected public reinterpret_cast requires static_assert
    static_cast template this thread_local throw true try typeid typename using virtual wchar_t
    xor xor_eq
"""

#: The keywords of C++20 that C lacks.
CPP_WORDS: Final = frozenset(_CPP.split())

_CONSTANTS = """E LOG2E LOG10E LN2 LN10 PI PI_2 PI_4 1_PI 2_PI 2_SQRTPI SQRT2 SQRT1_2"""

_LIMITS = """
    CHAR_BIT CHAR_MAX CHAR_MIN SCHAR_MAX SCHAR_MIN UCHAR_MAX SHRT_MAX SHRT_MIN USHRT_MAX INT_MAX
    INT_MIN UINT_MAX LONG_MAX LONG_MIN ULONG_MAX LLONG_MAX LLONG_MIN ULLONG_MAX SIZE_MAX
    PTRDIFF_MAX PTRDIFF_MIN INTPTR_MAX INTPTR_MIN UINTPTR_MAX INTMAX_MAX INTMAX_MIN UINTMAX_MAX
    FLT_RADIX FLT_EVAL_METHOD DECIMAL_DIG
"""

_INTEGERS = "size_t ptrdiff_t intptr_t uintptr_t intmax_t uintmax_t"

_FLOAT_LIMITS = "DIG EPSILON MANT_DIG MAX MAX_10_EXP MAX_EXP MIN MIN_10_EXP MIN_EXP TRUE_MIN"

_OTHER_MACROS = """
    NULL EOF BUFSIZ NAN INFINITY HUGE_VAL HUGE_VALF HUGE_VALL MAXFLOAT FP_NAN FP_INFINITE FP_ZERO
    FP_SUBNORMAL FP_NORMAL FP_ILOGB0 FP_ILOGBNAN FP_FAST_FMA FP_FAST_FMAF MATH_ERRNO MATH_ERREXCEPT
    DOMAIN SING OVERFLOW UNDERFLOW PLOSS TLOSS RAND_MAX EXIT_SUCCESS EXIT_FAILURE FILENAME_MAX
    FOPEN_MAX L_tmpnam P_tmpdir TMP_MAX SEEK_SET SEEK_CUR SEEK_END CLOCKS_PER_SEC
    stdin stdout stderr errno math_errhandling linux unix i386 arm
    offsetof va_start va_arg va_end va_copy
"""

#: The names of macros: of compilers, and of the headers that code includes.
MACROS: Final = frozenset(
    [
        *_OTHER_MACROS.split(),
        *_LIMITS.split(),
        *(f"M_{name}{suffix}" for name in _CONSTANTS.split() for suffix in ("", "_F", "f", "l")),
        *(f"{kind}_{name}" for kind in ("FLT", "DBL", "LDBL") for name in _FLOAT_LIMITS.split()),
        *(
            f"{sign}INT{kind}{bits}_{end}"
            for sign in ("", "U")
            for kind in ("", "_LEAST", "_FAST")
            for bits in (8, 16, 32, 64)
            for end in ("MIN", "MAX", "C")
        ),
        *(f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)),
        *_INTEGERS.split(),
    ]
)

_MATH = """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 exp10
    expm1 fabs fdim floor fma fmax fmin fmod frexp hypot ilogb j0 j1 jn ldexp lgamma llrint llround
    log log10 log1p log2 logb lrint lround modf nan nearbyint nextafter pow remainder remquo rint
    round scalbln scalbn sin sincos sinh sqrt tan tanh tgamma trunc y0 y1 yn
"""

_COMPLEX = "cabs cacos carg casin catan ccos ccosh cexp cimag clog conj cpow cproj creal csin csqrt"

_LIBC = """
    abort abs atexit atof atoi atol bcmp bcopy bsearch bzero calloc clock div exit fclose fflush
    ffs fopen fprintf fputc fputs fread free fscanf fwrite getc getchar getenv gets index isalnum
    isalpha isdigit isfinite isgreater isinf isless islower isnan isnormal isspace isupper labs
    ldiv llabs malloc memcmp memcpy memmove memset perror printf putc putchar puts qsort raise rand
    random read realloc remove rename rindex scanf setbuf signal signbit snprintf sprintf srand
    sscanf strcat strchr strcmp strcpy strlen strncmp strncpy system time tmpfile tolower toupper
    vprintf write gamma significand drem alloca pipe select wait fork exec kill sleep signgam
    exception timezone uint ushort ulong u_char u_int u_long u_short quad_t u_quad_t key_t id_t
    pid_t uid_t gid_t off_t loff_t dev_t ino_t mode_t nlink_t time_t clock_t clockid_t timer_t
    fd_set div_t ldiv_t lldiv_t va_list ssize_t register_t
"""

_OPENCL = """
    all any bitselect select shuffle shuffle2 clamp degrees radians mix step smoothstep sign cross
    dot distance length normalize fast_distance fast_length fast_normalize mad mad24 mul24 mad_hi
    mad_sat mul_hi hadd rhadd add_sat sub_sat rotate upsample clz ctz popcount abs_diff max min
    maxmag minmag acospi asinpi atanpi atan2pi cospi sinpi tanpi fract powr pown rootn rsqrt
    lgamma_r barrier mem_fence read_mem_fence write_mem_fence prefetch isequal isnotequal
    isgreaterequal islessequal islessgreater isordered isunordered vec_step get_global_id
    get_local_id get_group_id get_global_size get_local_size get_num_groups get_work_dim
    get_global_offset read_imagef read_imagei read_imageui write_imagef atomic_add atomic_sub
    atomic_xchg atomic_cmpxchg atomic_inc atomic_dec atomic_min atomic_max atomic_and atomic_or
    atomic_xor wait_group_events async_work_group_copy as_int as_float as_uint work_group_barrier
"""

_CUDA = """
    norm norm3d norm4d rhypot rnorm rcbrt erfinv erfcinv erfcx normcdf normcdfinv clock64 dim3
    int2float float2int saturate isinff isnanf assert std cuda cudaError
    atomicAdd atomicSub atomicExch atomicMin atomicMax atomicInc atomicDec atomicCAS atomicAnd
    atomicOr atomicXor make_float2 make_float4 make_int2 make_int4 blockIdx blockDim threadIdx
    gridDim warpSize
"""

#: Names that the libraries declare at file scope; kernels and tables cannot have them.
LIBRARY: Final = frozenset(
    [
        *(f"{name}{suffix}" for name in _MATH.split() for suffix in ("", "f", "l")),
        *(f"{name}{suffix}" for name in _COMPLEX.split() for suffix in ("", "f", "l")),
        *(f"{kind}_{name}" for kind in ("half", "native") for name in _MATH.split()),
        *_LIBC.split(),
        *_OPENCL.split(),
        *_CUDA.split(),
    ]
)


def is_implementation_name(name: str) -> bool:
    """Tell whether C reserves *name* for compilers and their libraries.

    >>> [is_implementation_name(name) for name in ("__global", "_Bool", "_a")]
    [True, True, False]
    """
    return name[:1] == "_" and (name[1:2] == "_" or name[1:2].isupper())


def vector_words(stems: str, counts: tuple[int, ...]) -> frozenset[str]:
    """Return the names of vector types.

    >>> sorted(vector_words("int float", (2, 4)))
    ['float2', 'float4', 'int2', 'int4']
    """
    return frozenset(f"{stem}{count}" for stem in stems.split() for count in counts)
