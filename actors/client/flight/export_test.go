package flight

// Waiting is how many callers of this process wait for the key.
func (g *Group) Waiting(key string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.calls[key]; c != nil {
		return c.waiting
	}
	return 0
}
