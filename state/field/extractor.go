package field

import (
	"fmt"
	"unicode/utf8"

	"github.com/concord-kv/concord/messages"
)

const noElement = -1

// Path is an extractor made ready for use. It keeps the extractor's strings.
type Path struct {
	names   []string
	element int64 // noElement, or the element of an array below names
	never   bool  // matches nothing
}

// Compile prepares an extractor. One that ValidateExtractor refuses finds nothing,
// except that its limits are not checked again.
func Compile(x *messages.Extractor) Path {
	switch by := x.GetBy().(type) {
	case *messages.Extractor_Identity:
		return Path{element: noElement, never: !by.Identity}
	case *messages.Extractor_Field:
		return Path{names: []string{by.Field}, element: noElement}
	case *messages.Extractor_Path_:
		names := by.Path.GetNames()
		return Path{names: names, element: noElement, never: len(names) == 0}
	case *messages.Extractor_Element:
		return Path{element: int64(by.Element)}
	}
	return Path{element: noElement, never: true}
}

func (p *Path) steps() int {
	if p.element != noElement {
		return len(p.names) + 1
	}
	return len(p.names)
}

func (p *Path) isIdentity() bool { return p.steps() == 0 && !p.never }

// ValidateExtractor refuses an extractor that says nothing or passes a limit. The
// error's field is relative to the extractor: "path.names[3]".
func ValidateExtractor(x *messages.Extractor) *messages.Error {
	switch by := x.GetBy().(type) {
	case *messages.Extractor_Identity:
		if !by.Identity {
			return messages.InvalidField("identity", "must be true when it is set")
		}
		return nil
	case *messages.Extractor_Field:
		return validateName("field", by.Field)
	case *messages.Extractor_Path_:
		names := by.Path.GetNames()
		if len(names) == 0 {
			return messages.InvalidField("path.names", "a path needs at least one name")
		}
		if len(names) > messages.FieldPathDepthMax {
			return messages.InvalidField("path.names", "a path of %d names", len(names)).
				WithLimit(messages.FieldPathDepthMax)
		}
		for i, name := range names {
			if err := validateName(fmt.Sprintf("path.names[%d]", i), name); err != nil {
				return err
			}
		}
		return nil
	case *messages.Extractor_Element:
		return nil
	}
	return messages.InvalidField("by", "an extractor must be identity, field, path or element")
}

// validateName accepts any JSON member name, also the empty one.
func validateName(field, name string) *messages.Error {
	if len(name) > messages.FieldNameBytesMax {
		return messages.InvalidField(field, "a name of %d bytes", len(name)).
			WithLimit(messages.FieldNameBytesMax)
	}
	if !utf8.ValidString(name) {
		return messages.InvalidField(field, "not valid UTF-8: no JSON name can equal it")
	}
	return nil
}
