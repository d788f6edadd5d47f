package daemon

import (
	"os/exec"
	"testing"
)

// RequireProgramsVariable makes it a failure, and not a reason to skip, that a program
// on the path is missing which "make test" builds or installs.
const RequireProgramsVariable = "HFTEST_REQUIRE_PROGRAMS"

// RequireProgram returns the path of a program that the test runs, or skips the test and
// says what makes it available.
func RequireProgram(t testing.TB, name, remedy string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	settle(t, err, RequireProgramsVariable, remedy)
	return path
}
