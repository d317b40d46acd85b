package main

import (
	"cmp"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/vim25/types"
)

type ref = types.ManagedObjectReference

// compareRefs orders vm-9 before vm-10, so that answers come in the order in which objects were made.
func compareRefs(a, b ref) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(len(a.Value), len(b.Value)), cmp.Compare(a.Value, b.Value))
}

// changeVersion is a new value of config.changeVersion, as the library writes it.
func changeVersion() string { return strconv.FormatInt(time.Now().UnixNano(), 10) }

func newUUID() string { return uuid.NewString() }

func empty(value any) bool {
	v := reflect.ValueOf(value)
	return !v.IsValid() || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && v.IsNil()
}

func hasThis(kind reflect.Type) bool {
	if kind.Kind() != reflect.Struct {
		return false
	}
	_, ok := kind.FieldByName("This")
	return ok
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func change(name string, val types.AnyType) types.PropertyChange {
	return types.PropertyChange{Name: name, Val: val}
}

// ofPolicies tells whether the object is one of the policies' service.
func ofPolicies(this ref) bool { return strings.HasPrefix(this.Type, "Pbm") }

var (
	moRefType  = reflect.TypeFor[types.ManagedObjectReference]()
	typeByName = types.TypeFunc()
)
