! The heat equation in Fortran: axes are in the opposite order, which the equation does not mind.
program heat
  use pde
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int32_t), parameter :: n = 65, steps = 200
  real(c_double), parameter :: c = 0.2_c_double
  real(c_double) :: u(n, n), next(n, n), start(n, n), h, damping, worst
  integer :: i, j, step

  h = acos(-1.0_c_double)/(n - 1)
  do j = 1, n
    do i = 1, n
      start(i, j) = sin(h*(i - 1))*sin(h*(j - 1))
    end do
  end do
  u = start
  next = start

  do step = 1, steps
    if (pde_heat_step(u, next, c, n, n) /= pde_success) then
      print "(a)", pde_last_message()
      error stop 1
    end if
    u = next
  end do

  damping = (1 + 4*c*(cos(h) - 1))**steps
  worst = maxval(abs(u(2:n - 1, 2:n - 1) - damping*start(2:n - 1, 2:n - 1)))
  if (worst > 1e-12_c_double) error stop 1
  print "(a, i0, a)", "heat equation: ", steps, " steps, error <= 1e-12"
end program
