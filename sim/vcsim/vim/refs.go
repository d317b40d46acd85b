// Package vim is the vocabulary of the VIM API: references, types, devices and faults.
package vim

import (
	"cmp"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/vim25/types"
)

// Ref is a reference to a managed object.
type Ref = types.ManagedObjectReference

// CompareRefs orders vm-9 before vm-10, so that answers come in the order in which objects were made.
func CompareRefs(a, b Ref) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(len(a.Value), len(b.Value)), cmp.Compare(a.Value, b.Value))
}

// ChangeVersion is a new value of config.ChangeVersion, as the library writes it.
func ChangeVersion() string { return strconv.FormatInt(time.Now().UnixNano(), 10) }

// NewUUID returns a random UUID.
func NewUUID() string { return uuid.NewString() }

// Empty tells whether a property has no value.
func Empty(value any) bool {
	v := reflect.ValueOf(value)
	return !v.IsValid() || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && v.IsNil()
}

// HasThis tells whether a type is the request of a method.
func HasThis(kind reflect.Type) bool {
	if kind.Kind() != reflect.Struct {
		return false
	}
	_, ok := kind.FieldByName("This")
	return ok
}

// SetDefault sets a field that has its zero value.
func SetDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Change assigns a value to a property.
func Change(name string, val types.AnyType) types.PropertyChange {
	return types.PropertyChange{Name: name, Val: val}
}

// OfPolicies tells whether the object is one of the policies' service.
func OfPolicies(this Ref) bool { return strings.HasPrefix(this.Type, "Pbm") }

var (
	MoRefType  = reflect.TypeFor[types.ManagedObjectReference]()
	TypeByName = types.TypeFunc()
)

// RetrieveProperty is the call that reads one property of an object.
func RetrieveProperty(this Ref, name string) *types.RetrievePropertiesEx {
	return &types.RetrievePropertiesEx{
		This: PropertyCollector,
		SpecSet: []types.PropertyFilterSpec{{
			PropSet:   []types.PropertySpec{{Type: this.Type, PathSet: []string{name}}},
			ObjectSet: []types.ObjectSpec{{Obj: this}},
		}},
	}
}

// PropertyCollector is the reference of every session's default collector.
var PropertyCollector = Ref{Type: "PropertyCollector", Value: "propertyCollector"}
