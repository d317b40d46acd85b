package core

import (
	"fmt"
	"log"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/vim"
)

// firstTask keeps our tasks' morefs apart from the library's.
const firstTask = 1_000_000

var lastTask atomic.Int64

// work is what a task does.
type work func() (types.AnyType, types.BaseMethodFault)

// runTask runs the work as a task of the entity. Unlike the library's tasks, it does not hold the entity's lock: the
// work locks what it needs, so that sixteen clones of one template run at once and the template stays readable.
func (vc *VCenter) runTask(entity vim.Ref, method string, do work) vim.Ref {
	ctx := vc.Fresh()
	task := vc.newTask(ctx, entity, method)
	go func() {
		vc.setTask(ctx, task, vim.Change("info.state", types.TaskInfoStateRunning), vim.Change("info.startTime", vc.Clock.Now()))
		result, fault := safely(do)
		vc.endTask(ctx, task, result, fault)
	}()
	return task.Self
}

// safely turns a panic of the library into a fault of the task.
func safely(do work) (result types.AnyType, fault types.BaseMethodFault) {
	defer func() {
		if r := recover(); r != nil {
			log.Printf("task: panic: %v", r)
			result, fault = nil, &types.SystemError{Reason: "simulator panic"}
		}
	}()
	return do()
}

func (vc *VCenter) newTask(ctx *simulator.Context, entity vim.Ref, method string) *simulator.Task {
	target := ctx.Map.Get(entity)
	if target == nil {
		target = entity
	}
	task := simulator.CreateTask(entity, method, nil)
	task.Info.Name = method
	short := strings.TrimSuffix(strings.TrimSuffix(method, "_Task"), "VM")
	task.Info.DescriptionId = entity.Type + "." + strings.ToLower(short[:1]) + short[1:]
	task.Self = vim.Ref{Type: "Task", Value: fmt.Sprintf("task-%d", firstTask+lastTask.Add(1))}
	task.Info.Key, task.Info.Task = task.Self.Value, task.Self
	// Putting the task writes to the entity's list of recent tasks.
	ctx.WithLock(target, func() {
		if e, ok := target.(mo.Entity); ok {
			task.Info.EntityName = e.Entity().Name
		}
		ctx.Map.Put(task)
	})
	return task
}

func (vc *VCenter) endTask(ctx *simulator.Context, task *simulator.Task, result types.AnyType, fault types.BaseMethodFault) {
	changes := []types.PropertyChange{
		vim.Change("info.state", types.TaskInfoStateSuccess), vim.Change("info.completeTime", vc.Clock.Now()), vim.Change("info.result", result),
	}
	if fault != nil {
		changes = []types.PropertyChange{
			vim.Change("info.state", types.TaskInfoStateError), vim.Change("info.completeTime", vc.Clock.Now()),
			vim.Change("info.error", types.LocalizedMethodFault{Fault: fault, LocalizedMessage: vim.FaultText(fault)}),
		}
	}
	vc.setTask(ctx, task, changes...)
}

func (vc *VCenter) setTask(ctx *simulator.Context, task *simulator.Task, changes ...types.PropertyChange) {
	ctx.Map.AtomicUpdate(ctx, task, changes)
}

// nameTask names the task of an answer after its method, as vCenter does. The library writes "PowerOn" for PowerOnVM_Task: clients that
// look up the method of a running task fail on that.
func (vc *VCenter) nameTask(ctx *simulator.Context, res soap.HasFault, method string) {
	ref, ok := taskOf(res)
	if !ok {
		return
	}
	if task, ok := ctx.Map.Get(ref).(*simulator.Task); ok {
		vc.setTask(ctx, task, vim.Change("info.name", method))
	}
}

// FailedTask is the answer of a method whose task fails before it begins.
func (vc *VCenter) FailedTask(this vim.Ref, method string, fault types.BaseMethodFault) soap.HasFault {
	return vc.InTask(this, method, func() (types.AnyType, types.BaseMethodFault) { return nil, fault })
}

// await waits for the end of any task.
func (vc *VCenter) await(task vim.Ref) (types.AnyType, types.BaseMethodFault) {
	ctx := vc.Fresh()
	done, forget := vc.Hub.finished(task)
	defer forget()
	for {
		o, ok := ctx.Map.Get(task).(*simulator.Task)
		if !ok {
			return nil, &types.ManagedObjectNotFound{Obj: task}
		}
		var info types.TaskInfo
		ctx.WithLock(o, func() { info = o.Info })
		switch info.State {
		case types.TaskInfoStateSuccess:
			return info.Result, nil
		case types.TaskInfoStateError:
			if info.Error == nil {
				return nil, &types.SystemError{Reason: "unknown"}
			}
			return nil, info.Error.Fault
		}
		<-done
	}
}

// Follow waits for the task of a method's answer, if it has one.
func (vc *VCenter) Follow(res soap.HasFault) (types.AnyType, types.BaseMethodFault) {
	if f := res.Fault(); f != nil {
		fault, _ := f.VimFault().(types.BaseMethodFault)
		return nil, fault
	}
	if task, ok := taskOf(res); ok {
		return vc.await(task)
	}
	return nil, nil
}

// taskOf is the task that a method's answer names.
func taskOf(res soap.HasFault) (vim.Ref, bool) {
	field := reflect.ValueOf(res).Elem().FieldByName("Res")
	if res.Fault() != nil || !field.IsValid() || field.IsNil() {
		return vim.Ref{}, false
	}
	value := field.Elem().FieldByName("Returnval")
	if !value.IsValid() {
		return vim.Ref{}, false
	}
	task, ok := value.Interface().(vim.Ref)
	return task, ok && task.Type == "Task"
}

// InTask answers with a task of ours in place of the method's own.
func (vc *VCenter) InTask(this vim.Ref, method string, do work) soap.HasFault {
	return &vim.TaskAnswer{Res: &vim.TaskReturn{Returnval: vc.runTask(this, method, do)}}
}

// RunningTasks are those that have not ended, by name.
func (vc *VCenter) RunningTasks(ctx *simulator.Context) []string {
	running := []string{}
	for _, o := range ctx.Map.AllReference("Task") {
		task, ok := o.(*simulator.Task)
		if !ok {
			continue
		}
		ctx.WithLock(task, func() {
			if state := task.Info.State; state == types.TaskInfoStateRunning || state == types.TaskInfoStateQueued {
				running = append(running, task.Info.DescriptionId+" on "+task.Info.EntityName)
			}
		})
	}
	slices.Sort(running)
	return running
}
