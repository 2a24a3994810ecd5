// Package recipetest is what the tests of the SDK's recipes share: a real node in the
// process, clients over either transport with faults between, and clocks that run with
// real time and can be made to jump, as after a pause.
package recipetest
