package control

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/compute"
	"layercake.invalid/sim/vcsim/vim"
)

func guestInfo(vm target) (any, error) {
	info := map[string]string{}
	vm.locked(func() {
		for _, o := range vm.Config.ExtraConfig {
			if option := o.GetOptionValue(); strings.HasPrefix(option.Key, "guestinfo.") {
				info[option.Key] = fmt.Sprint(option.Value)
			}
		}
	})
	return info, nil
}

// setGuestInfo is the guest's rpctool: null takes a key away.
func setGuestInfo(vm target, patch map[string]*string) (any, error) {
	for key := range patch {
		if !strings.HasPrefix(key, "guestinfo.") {
			return nil, invalid("%s: a guest sets only keys that begin with guestinfo.", key)
		}
	}
	vm.locked(func() {
		var options []types.BaseOptionValue
		for _, o := range vm.Config.ExtraConfig {
			if _, replaced := patch[o.GetOptionValue().Key]; !replaced {
				options = append(options, o)
			}
		}
		for key, value := range patch {
			if value != nil {
				options = append(options, &types.OptionValue{Key: key, Value: *value})
			}
		}
		vm.update([]types.PropertyChange{
			{Name: "config.extraConfig", Val: options},
			{Name: "config.changeVersion", Val: vim.ChangeVersion()},
		})
	})
	return nil, nil
}

// report notes guest facts as VMware Tools would. A member that is left out keeps its value.
func report(vm target, raw map[string]any) (_ any, err error) {
	vm.locked(func() {
		if vm.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOn {
			err = conflict("VM %s is %s: only a running guest has facts", vm.Name, vm.Runtime.PowerState)
			return
		}
		facts := compute.GuestFacts{IP: vm.Guest.IpAddress, Host: vm.Guest.HostName, Tools: compute.ToolsRunning(vm.VirtualMachine)}
		for key, value := range raw {
			text, isText := value.(string)
			running, isBool := value.(bool)
			switch {
			case key == "ip" && (isText || value == nil):
				facts.IP = text
			case key == "hostName" && (isText || value == nil):
				facts.Host = text
			case key == "heartbeat" && slices.Contains([]string{"gray", "red", "yellow", "green"}, text):
				facts.Heartbeat = text
			case key == "toolsRunning" && isBool:
				facts.Tools = running
			default:
				err = invalid("%s: unknown or of the wrong type", key)
				return
			}
		}
		vm.update(facts.Changes(vm.ctx, vm.VirtualMachine))
	})
	return nil, err
}

// power acts on a VM behind the client's back.
func (api *API) power(vm target, o powerOrder) (any, error) {
	this := vm.Self
	var method string
	var body types.AnyType
	switch o.Action {
	case "on":
		method, body = "PowerOnVM_Task", &types.PowerOnVM_Task{This: this}
	case "off":
		method, body = "PowerOffVM_Task", &types.PowerOffVM_Task{This: this}
	case "reset":
		method, body = "ResetVM_Task", &types.ResetVM_Task{This: this}
	case "unregister":
		method, body = "UnregisterVM", &types.UnregisterVM{This: this}
	case "destroy":
		method, body = "Destroy_Task", &types.Destroy_Task{This: this}
	default:
		return nil, invalid("action %q: must be on, off, reset, destroy or unregister", o.Action)
	}
	if o.Action == "unregister" || o.Action == "destroy" {
		api.forceOff(this)
	}
	if fault := api.carryOut(this, method, body); fault != nil {
		return nil, conflict("VM %s: %s: %s", this.Value, o.Action, vim.FaultText(fault))
	}
	return nil, nil
}

func (api *API) forceOff(this vim.Ref) {
	_, _ = api.Follow(api.Compute.PowerOff(api.Fresh(), nil, &types.PowerOffVM_Task{This: this}))
}

// ask shows a question about a VM, as a host asks it while an operation waits for the answer.
func ask(vm target, o questionOrder) (any, error) {
	vm.locked(func() {
		vm.Runtime.Question = nil
		if o.Text != "" {
			cancel := &types.ElementDescription{
				Description: types.Description{Label: "Cancel", Summary: "Cancel"}, Key: "0",
			}
			vm.Runtime.Question = &types.VirtualMachineQuestionInfo{
				Id: "1", Text: o.Text, Choice: types.ChoiceOption{ChoiceInfo: []types.BaseElementDescription{cancel}},
			}
		}
		// A change that shows the VM anew.
		vm.update([]types.PropertyChange{{Name: "runtime.connectionState", Val: vm.Runtime.ConnectionState}})
	})
	return nil, nil
}
