package main

import (
	"fmt"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// refusal is a method's answer that holds nothing but a fault.
type refusal struct {
	Res    *struct{}
	Reason *soap.Fault `xml:"http://schemas.xmlsoap.org/soap/envelope/ Fault,omitempty"`
}

// Fault is the interface by which the library looks at any answer.
func (f *refusal) Fault() *soap.Fault { return f.Reason }

func faultBody(message string, detail types.BaseMethodFault) soap.HasFault {
	return &refusal{Reason: simulator.Fault(message, detail)}
}

func notAuthenticated(this types.ManagedObjectReference) soap.HasFault {
	return faultBody("The session is not authenticated.", &types.NotAuthenticated{
		NoPermission: types.NoPermission{Object: &this, PrivilegeId: "System.View"},
	})
}

// faultText is the message that a user would see.
func faultText(fault types.BaseMethodFault) string {
	switch f := fault.(type) {
	case *types.DuplicateName:
		return fmt.Sprintf("The name '%s' already exists.", f.Name)
	case *types.InvalidArgument:
		return fmt.Sprintf("A specified parameter was not correct: %s", f.InvalidProperty)
	case *types.InsufficientMemoryResourcesFault:
		return fmt.Sprintf("The available Memory resources in the parent resource pool are insufficient for the operation: %d bytes requested, %d unreserved.", f.Requested, f.Unreserved)
	case *types.InsufficientCpuResourcesFault:
		return fmt.Sprintf("The available CPU resources in the parent resource pool are insufficient for the operation: %d MHz requested, %d unreserved.", f.Requested, f.Unreserved)
	case *types.ConcurrentAccess:
		return "The object has been concurrently modified by another operation."
	case *types.NotSupported:
		return "The operation is not supported on the object."
	}
	for _, m := range fault.GetMethodFault().FaultMessage {
		return m.Message
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", fault), "*types.")
}

// taskAnswer is the answer of any method that returns a task.
type taskAnswer struct {
	Res    *taskReturn `xml:"urn:vim25 taskReturn,omitempty"`
	Reason *soap.Fault `xml:"http://schemas.xmlsoap.org/soap/envelope/ Fault,omitempty"`
}

type taskReturn struct {
	Returnval ref `xml:"returnval"`
}

// Fault is the interface by which the library looks at any answer.
func (a *taskAnswer) Fault() *soap.Fault { return a.Reason }
