package vim

import (
	"reflect"
	"strings"

	"github.com/vmware/govmomi/vim25/mo"
)

// ManagedTypes are the managed object types that views and filters are commonly made for.
var ManagedTypes = func() map[string]reflect.Type {
	all := map[string]reflect.Type{}
	for _, o := range []any{
		mo.ClusterComputeResource{}, mo.ComputeResource{}, mo.ContainerView{}, mo.Datacenter{}, mo.Datastore{},
		mo.DistributedVirtualPortgroup{}, mo.DistributedVirtualSwitch{}, mo.Folder{}, mo.HostSystem{},
		mo.HttpNfcLease{}, mo.ListView{}, mo.ManagedEntity{}, mo.Network{}, mo.OpaqueNetwork{}, mo.ResourcePool{},
		mo.SessionManager{}, mo.StoragePod{}, mo.Task{}, mo.TaskHistoryCollector{}, mo.TaskManager{}, mo.VirtualApp{},
		mo.VirtualMachine{}, mo.VirtualMachineSnapshot{}, mo.VmwareDistributedVirtualSwitch{},
	} {
		t := reflect.TypeOf(o)
		all[t.Name()] = t
	}
	return all
}()

// IsA tells whether an object of the type is also of the base type.
func IsA(kind, base string) bool {
	if kind == base {
		return true
	}
	t, ok := ManagedTypes[kind]
	if !ok {
		return false
	}
	field, ok := t.FieldByName(base)
	return ok && field.Anonymous
}

// HasProperty tells whether the type has the property path; of a type that is not listed nothing is known.
func HasProperty(kind, path string) bool {
	t, ok := ManagedTypes[kind]
	if !ok {
		return true
	}
	path, _, _ = strings.Cut(path, "[")
	for _, name := range strings.Split(path, ".") {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() == reflect.Interface {
			return true
		}
		if t.Kind() != reflect.Struct || name == "" {
			return false
		}
		field, ok := t.FieldByName(strings.ToUpper(name[:1]) + name[1:])
		if !ok || name == "self" {
			return false
		}
		t = field.Type
	}
	return true
}
