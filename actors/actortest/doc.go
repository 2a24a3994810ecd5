// Package actortest holds the simulation that runs the real actors, and the tests
// that hold the tree to its layers.
package actortest
