package vim

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

// FaultBody is the answer of a method that fails.
func FaultBody(message string, detail types.BaseMethodFault) soap.HasFault {
	return &refusal{Reason: simulator.Fault(message, detail)}
}

// Gone is the answer to a call on an object that does not exist.
func Gone(this Ref) soap.HasFault {
	return FaultBody("The object has already been deleted or has not been completely created", &types.ManagedObjectNotFound{Obj: this})
}

// NotAuthenticated is the answer to a call without a session.
func NotAuthenticated(this types.ManagedObjectReference) soap.HasFault {
	return FaultBody("The session is not authenticated.", &types.NotAuthenticated{
		NoPermission: types.NoPermission{Object: &this, PrivilegeId: "System.View"},
	})
}

// FaultText is the message that a user would see.
func FaultText(fault types.BaseMethodFault) string {
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

// TaskAnswer is the answer of any method that returns a task.
type TaskAnswer struct {
	Res    *TaskReturn `xml:"urn:vim25 TaskReturn,omitempty"`
	Reason *soap.Fault `xml:"http://schemas.xmlsoap.org/soap/envelope/ Fault,omitempty"`
}

// TaskReturn holds the task.
type TaskReturn struct {
	Returnval Ref `xml:"returnval"`
}

// Fault is the interface by which the library looks at any answer.
func (a *TaskAnswer) Fault() *soap.Fault { return a.Reason }
