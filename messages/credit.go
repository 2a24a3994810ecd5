package messages

// CreditBytes returns what an event costs of a watch's credit in bytes: its key
// and value and those of its previous record. Both ends count alike, so that what
// a client has consumed and returns is what the node had charged. A client that
// returns more, for example encoded sizes, only stops at WatchCreditBytesMax.
func CreditBytes(e *Event) int64 {
	n := len(e.GetRecord().GetKey()) + len(e.GetRecord().GetValue())
	if p := e.GetPrev(); p != nil {
		n += len(p.Key) + len(p.Value)
	}
	return int64(n)
}
