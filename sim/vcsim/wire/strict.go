package wire

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/vim"
)

// govmomi's JSON decoder lets much pass that vCenter refuses: misspelt members, a wrong _typeName, a reference that is
// boxed. strict walks the raw JSON along the Go type first, so that a client's mistake shows in its first test.

// member is one JSON member of a VIM data object.
type member struct {
	typ      reflect.Type
	required bool
}

var (
	timeType   = reflect.TypeFor[time.Time]()
	primitives = map[string]reflect.Type{
		"boolean": reflect.TypeFor[bool](), "byte": reflect.TypeFor[int8](), "short": reflect.TypeFor[int16](),
		"int": reflect.TypeFor[int32](), "long": reflect.TypeFor[int64](), "float": reflect.TypeFor[float32](),
		"double": reflect.TypeFor[float64](), "string": reflect.TypeFor[string](), "dateTime": timeType,
		"binary": reflect.TypeFor[[]byte](),
	}
	memberCache sync.Map // reflect.Type → map[string]member
)

// strict checks the value against the type and gives it back as govmomi's decoder wants it.
func strict(path string, value any, t reflect.Type) (any, error) {
	if t.Kind() == reflect.Pointer {
		return strict(path, value, t.Elem())
	}
	switch {
	case t == timeType:
		text, ok := value.(string)
		if _, err := time.Parse(time.RFC3339Nano, text); !ok || err != nil {
			return nil, fmt.Errorf("%s: must be a time as in RFC 3339", path)
		}
		return value, nil
	case t.Kind() == reflect.Interface:
		return strictBase(path, value, t)
	case t.Kind() == reflect.Struct:
		return strictObject(path, value, t)
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return value, nil
	case t.Kind() == reflect.Slice:
		list, ok := value.([]any)
		if !ok {
			return nil, fmt.Errorf("%s: must be an array", path)
		}
		for i := range list {
			var err error
			if list[i], err = strict(fmt.Sprintf("%s[%d]", path, i), list[i], t.Elem()); err != nil {
				return nil, err
			}
		}
		return list, nil
	default:
		return value, strictScalar(path, value, t)
	}
}

func strictScalar(path string, value any, t reflect.Type) error {
	switch t.Kind() {
	case reflect.String:
		text, ok := value.(string)
		if !ok {
			return fmt.Errorf("%s: must be a string", path)
		}
		if enum, ok := reflect.Zero(t).Interface().(interface{ Strings() []string }); ok && text != "" &&
			!slices.Contains(enum.Strings(), text) {
			return fmt.Errorf("%s: %q is no %s", path, text, t.Name())
		}
	case reflect.Bool:
		if _, ok := value.(bool); !ok {
			return fmt.Errorf("%s: must be a boolean", path)
		}
	default:
		number, ok := value.(json.Number)
		if !ok || json.Unmarshal([]byte(number), reflect.New(t).Interface()) != nil {
			return fmt.Errorf("%s: must be a number of type %s", path, t.Kind())
		}
	}
	return nil
}

// strictBase checks a value whose declared type is a base type or Any: there only _typeName tells what it is.
func strictBase(path string, value any, t reflect.Type) (any, error) {
	object, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: must be an object with a _typeName", path)
	}
	name, ok := object["_typeName"].(string)
	if !ok {
		return nil, fmt.Errorf("%s: _typeName is missing", path)
	}
	anything := t.NumMethod() == 0
	if scalar, ok := primitives[name]; ok && anything {
		return strictBox(path, object, scalar)
	}
	actual, ok := vim.TypeByName(name)
	if !ok {
		return nil, fmt.Errorf("%s: %q is no type", path, name)
	}
	if actual == vim.MoRefType && anything {
		// Both forms occur in vendor texts; govmomi knows only the one without a box.
		if inside, ok := object["_value"].(map[string]any); ok && len(object) == 2 {
			if _, ok := inside["_typeName"]; !ok {
				inside["_typeName"] = name
			}
			return strictObject(path+"._value", inside, actual)
		}
	}
	if actual.Kind() != reflect.Struct {
		return strictBox(path, object, actual)
	}
	if !anything && !reflect.PointerTo(actual).Implements(t) {
		return nil, fmt.Errorf("%s: %s does not fit where %s is declared", path, name, strings.TrimPrefix(t.Name(), "Base"))
	}
	return strictObject(path, object, actual)
}

// strictBox checks {"_typeName":…,"_value":…}.
func strictBox(path string, object map[string]any, t reflect.Type) (any, error) {
	value, ok := object["_value"]
	if !ok || len(object) != 2 {
		return nil, fmt.Errorf("%s: a %v must be boxed as _typeName and _value", path, object["_typeName"])
	}
	_, err := strict(path+"._value", value, t)
	return object, err
}

func strictObject(path string, value any, t reflect.Type) (any, error) {
	object, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: must be an object", path)
	}
	if name, ok := object["_typeName"]; ok && name != types.VmomiTypeName(t) {
		return nil, fmt.Errorf("%s: _typeName %v where %s is declared", path, name, types.VmomiTypeName(t))
	}
	known := membersOf(t)
	for name, inside := range object {
		if name == "_typeName" {
			continue
		}
		m, ok := known[name]
		if !ok {
			return nil, fmt.Errorf("%s: %s has no member %q", path, types.VmomiTypeName(t), name)
		}
		if inside == nil {
			delete(object, name)
			continue
		}
		checked, err := strict(path+"."+name, inside, m.typ)
		if err != nil {
			return nil, err
		}
		object[name] = checked
	}
	for name, m := range known {
		if _, ok := object[name]; m.required && !ok {
			return nil, fmt.Errorf("%s: %s needs the member %q", path, types.VmomiTypeName(t), name)
		}
	}
	return object, nil
}

// membersOf reads the JSON members from the struct tags; what is not omitempty is required.
func membersOf(t reflect.Type) map[string]member {
	if cached, ok := memberCache.Load(t); ok {
		return cached.(map[string]member)
	}
	members := map[string]member{}
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-", name == "_this": // where the call goes is in its path
		case field.Anonymous && field.Type.Kind() == reflect.Struct:
			for k, v := range membersOf(field.Type) {
				members[k] = v
			}
		case name != "":
			members[name] = member{typ: field.Type, required: !strings.Contains(options, "omitempty")}
		}
	}
	memberCache.Store(t, members)
	return members
}
