package clustertest

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

func at(client int, call, end int64, in input, out output) porcupine.Operation {
	return porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: end}
}

// TestCheckerSeesThrough: the model takes what a register may do and nothing else.
func TestCheckerSeesThrough(t *testing.T) {
	putA, putB := input{verb: verbPut, key: "k", value: "a"}, input{verb: verbPut, key: "k", value: "b"}
	get := input{verb: verbGet, key: "k"}
	cas := input{verb: verbCAS, key: "k", old: "a", value: "c"}
	for _, tc := range []struct {
		name  string
		ops   []porcupine.Operation
		legal bool
	}{
		{"a read of the last write", []porcupine.Operation{
			at(0, 0, 1, putA, output{}), at(1, 2, 3, get, output{value: "a"})}, true},
		{"a read of what was overwritten", []porcupine.Operation{
			at(0, 0, 1, putA, output{}), at(0, 2, 3, putB, output{}), at(1, 4, 5, get, output{value: "a"})}, false},
		{"a lost write", []porcupine.Operation{
			at(0, 0, 1, putA, output{}), at(1, 2, 3, get, output{})}, false},
		{"an unknown write may have happened", []porcupine.Operation{
			at(0, 0, 1<<62, putA, output{unknown: true}), at(1, 2, 3, get, output{value: "a"})}, true},
		{"or not", []porcupine.Operation{
			at(0, 0, 1<<62, putA, output{unknown: true}), at(1, 2, 3, get, output{})}, true},
		{"but not be undone", []porcupine.Operation{
			at(0, 0, 1<<62, putA, output{unknown: true}), at(1, 2, 3, get, output{value: "a"}), at(1, 4, 5, get, output{})}, false},
		{"a compare-and-set that holds", []porcupine.Operation{
			at(0, 0, 1, putA, output{}), at(1, 2, 3, cas, output{done: true}), at(1, 4, 5, get, output{value: "c"})}, true},
		{"one that cannot hold", []porcupine.Operation{
			at(0, 0, 1, putB, output{}), at(1, 2, 3, cas, output{done: true})}, false},
		{"two that cannot both", []porcupine.Operation{
			at(0, 0, 1, putA, output{}), at(1, 2, 5, cas, output{done: true}),
			at(2, 2, 5, input{verb: verbCAS, key: "k", old: "a", value: "d"}, output{done: true})}, false},
		{"a deleted key", []porcupine.Operation{
			at(0, 0, 1, putA, output{}), at(0, 2, 3, input{verb: verbDelete, key: "k"}, output{}), at(1, 4, 5, get, output{})}, true},
	} {
		if got := porcupine.CheckOperations(registers, tc.ops); got != tc.legal {
			t.Errorf("%s: linearizable %v", tc.name, got)
		}
	}
}
