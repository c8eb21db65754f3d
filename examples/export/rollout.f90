! Roll a model out in Fortran: the C step through iso_c_binding.
!
!     fino export diffusion-reaction-2d --to c --out fino.c
!     cc -O3 -march=native -c fino.c
!     gfortran -O2 rollout.f90 fino.o -lm -o rollout
!     ./rollout history.bin frames.bin 64 64 100
!
! C's (HISTORY, FIELDS, height, width) is Fortran's (width, height, FIELDS, HISTORY).
program rollout
  use, intrinsic :: iso_c_binding
  implicit none

  interface
    function fino_workspace(height, width) bind(c) result(bytes)
      import :: c_int, c_size_t
      integer(c_int), value :: height, width
      integer(c_size_t) :: bytes
    end function
    function fino_step(history, out, height, width, parameters, beside, workspace) bind(c) result(wrong)
      import :: c_int, c_float, c_ptr, c_int8_t
      real(c_float), intent(in) :: history(*)
      real(c_float), intent(out) :: out(*)
      integer(c_int), value :: height, width
      type(c_ptr), value :: parameters, beside
      integer(c_int8_t) :: workspace(*)
      integer(c_int) :: wrong
    end function
  end interface

  integer, parameter :: frames = 10, fields = 2  ! of this model: see the head of fino.h
  real(c_float), allocatable :: history(:, :, :, :), next(:, :, :)
  integer(c_int8_t), allocatable :: workspace(:)
  integer(c_int) :: height, width, wrong
  integer :: step, steps, input, output
  character(len=256) :: words(5)

  do step = 1, 5
    call get_command_argument(step, words(step))
  end do
  read (words(3), *) height
  read (words(4), *) width
  read (words(5), *) steps
  if (fino_workspace(height, width) == 0) error stop 'this model does not run on so many cells'
  allocate (history(width, height, fields, frames), next(width, height, fields))
  allocate (workspace(fino_workspace(height, width)))

  open (newunit=input, file=trim(words(1)), access='stream', form='unformatted', status='old')
  open (newunit=output, file=trim(words(2)), access='stream', form='unformatted', status='replace')
  read (input) history
  do step = 1, steps
    wrong = fino_step(history, next, height, width, c_null_ptr, c_null_ptr, workspace)
    if (wrong /= 0) error stop 'the step failed'
    history(:, :, :, :frames - 1) = history(:, :, :, 2:)
    history(:, :, :, frames) = next
    write (output) next
  end do
  close (input)
  close (output)
end program
