package compute

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/vmware/govmomi/ovf"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
)

// OVF properties: the types that vCenter gives them, and the values that it refuses. The library keeps the descriptor's words, and
// takes every value.

// createImportSpec gives the properties of an appliance vCenter's types.
func (cp *Compute) createImportSpec(ctx *simulator.Context, _ *core.Call, body types.AnyType) soap.HasFault {
	req := body.(*types.CreateImportSpec)
	res := cp.Invoke(ctx, req.This, "CreateImportSpec", body)
	created, ok := res.(*methods.CreateImportSpecBody)
	if !ok || created.Res == nil {
		return res
	}
	spec, ok := created.Res.Returnval.ImportSpec.(*types.VirtualMachineImportSpec)
	if !ok || spec.ConfigSpec.VAppConfig == nil {
		return res
	}
	envelope, err := ovf.Unmarshal(strings.NewReader(req.OvfDescriptor))
	if err != nil || envelope.VirtualSystem == nil {
		return res
	}
	properties := spec.ConfigSpec.VAppConfig.GetVmConfigSpec().Property
	at := 0
	for _, product := range envelope.VirtualSystem.Product {
		for _, property := range product.Property {
			if at < len(properties) && properties[at].Info != nil {
				properties[at].Info.Type = propertyType(property)
			}
			at++
		}
	}
	return res
}

// integers are the ranges of a descriptor's types.
var integers = map[string]string{
	"uint8": "int(0..255)", "sint8": "int(-128..127)", "uint16": "int(0..65535)", "sint16": "int(-32768..32767)",
	"uint32": "int(0..4294967295)", "sint32": "int(-2147483648..2147483647)",
	"uint64": "int(0..18446744073709551615)", "sint64": "int(-9223372036854775808..9223372036854775807)",
	"real32": "real", "real64": "real",
}

// propertyType is what vCenter calls the type of a descriptor's property, with its qualifiers.
func propertyType(property ovf.Property) string {
	if known, ok := integers[property.Type]; ok {
		return known
	}
	if property.Type != "string" {
		return property.Type
	}
	word := "string"
	if property.Password != nil && *property.Password {
		word = "password"
	}
	qualifiers := ""
	if property.Qualifiers != nil {
		qualifiers = *property.Qualifiers
	}
	if choices, ok := between(qualifiers, "ValueMap{", "}"); ok {
		return word + "[" + choices + "]"
	}
	least, _ := between(qualifiers, "MinLen(", ")")
	most, _ := between(qualifiers, "MaxLen(", ")")
	if least != "" || most != "" {
		return word + "(" + least + ".." + most + ")"
	}
	return word
}

func between(text, open, end string) (string, bool) {
	_, rest, found := strings.Cut(text, open)
	inner, _, closed := strings.Cut(rest, end)
	return strings.TrimSpace(inner), found && closed
}

// checkProperties refuses to set what users may not set, and values that are not of their property's type.
func checkProperties(present types.BaseVmConfigInfo, wanted types.BaseVmConfigSpec) types.BaseMethodFault {
	if present == nil || wanted == nil {
		return nil
	}
	for _, change := range wanted.GetVmConfigSpec().Property {
		if change.Operation != types.ArrayUpdateOperationEdit || change.Info == nil {
			continue
		}
		for _, property := range present.GetVmConfigInfo().Property {
			if property.Key == change.Info.Key {
				if fault := checkProperty(&property, change.Info.Value); fault != nil {
					return fault
				}
			}
		}
	}
	return nil
}

func checkProperty(property *types.VAppPropertyInfo, value string) types.BaseMethodFault {
	if value == property.Value {
		return nil
	}
	fault := types.VAppPropertyFault{
		Id: property.Id, Category: property.Category, Label: property.Label, Type: property.Type, Value: value,
	}
	if !isTrue(property.UserConfigurable) {
		return &types.NotUserConfigurableProperty{VAppPropertyFault: fault}
	}
	if value != "" && !isOfType(property.Type, value) {
		return &types.InvalidPropertyValue{VAppPropertyFault: fault}
	}
	return nil
}

// isOfType tells whether a property of vCenter's type can have the value.
func isOfType(kind, value string) bool {
	if word, choices, ok := strings.Cut(kind, "["); ok && (word == "string" || word == "password") {
		var all []string
		if json.Unmarshal([]byte("["+choices), &all) != nil {
			return true
		}
		return slices.Contains(all, value)
	}
	word, bounds, _ := strings.Cut(strings.TrimSuffix(kind, ")"), "(")
	least, most, _ := strings.Cut(bounds, "..")
	switch word {
	case "string", "password":
		return within(float64(utf8.RuneCountInString(value)), least, most)
	case "int":
		_, signed := strconv.ParseInt(value, 10, 64)
		_, unsigned := strconv.ParseUint(value, 10, 64)
		number, err := strconv.ParseFloat(value, 64)
		return (signed == nil || unsigned == nil) && err == nil && within(number, least, most)
	case "real":
		number, err := strconv.ParseFloat(value, 64)
		return err == nil && within(number, least, most)
	case "boolean":
		return strings.EqualFold(value, "true") || strings.EqualFold(value, "false")
	case "ip":
		_, err := netip.ParseAddr(value)
		return err == nil
	}
	return true
}

func within(number float64, least, most string) bool {
	if bound, err := strconv.ParseFloat(least, 64); err == nil && number < bound {
		return false
	}
	bound, err := strconv.ParseFloat(most, 64)
	return err != nil || number <= bound
}
