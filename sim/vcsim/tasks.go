package main

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
)

// firstTask keeps our tasks' morefs apart from the library's.
const firstTask = 1_000_000

var lastTask atomic.Int64

// work is what a task does.
type work func() (types.AnyType, types.BaseMethodFault)

// runTask runs the work as a task of the entity. Unlike the library's tasks, it does not hold the entity's lock: the
// work locks what it needs, so that sixteen clones of one template run at once and the template stays readable.
func (s *Sim) runTask(entity ref, method string, do work) ref {
	ctx := s.fresh()
	task := s.newTask(ctx, entity, method)
	go func() {
		s.setTask(ctx, task, change("info.state", types.TaskInfoStateRunning), change("info.startTime", s.clock.now()))
		result, fault := safely(do)
		s.endTask(ctx, task, result, fault)
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

func (s *Sim) newTask(ctx *simulator.Context, entity ref, method string) *simulator.Task {
	target := ctx.Map.Get(entity)
	if target == nil {
		target = entity
	}
	task := simulator.CreateTask(entity, method, nil)
	task.Info.Name = method
	short := strings.TrimSuffix(strings.TrimSuffix(method, "_Task"), "VM")
	task.Info.DescriptionId = entity.Type + "." + strings.ToLower(short[:1]) + short[1:]
	task.Self = ref{Type: "Task", Value: fmt.Sprintf("task-%d", firstTask+lastTask.Add(1))}
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

func (s *Sim) endTask(ctx *simulator.Context, task *simulator.Task, result types.AnyType, fault types.BaseMethodFault) {
	changes := []types.PropertyChange{
		change("info.state", types.TaskInfoStateSuccess), change("info.completeTime", s.clock.now()), change("info.result", result),
	}
	if fault != nil {
		changes = []types.PropertyChange{
			change("info.state", types.TaskInfoStateError), change("info.completeTime", s.clock.now()),
			change("info.error", types.LocalizedMethodFault{Fault: fault, LocalizedMessage: faultText(fault)}),
		}
	}
	s.setTask(ctx, task, changes...)
}

func (s *Sim) setTask(ctx *simulator.Context, task *simulator.Task, changes ...types.PropertyChange) {
	ctx.Map.AtomicUpdate(ctx, task, changes)
}

// failedTask is the answer of a method whose task fails before it begins.
func (s *Sim) failedTask(entity ref, method string, fault types.BaseMethodFault) ref {
	return s.runTask(entity, method, func() (types.AnyType, types.BaseMethodFault) { return nil, fault })
}

// await waits for the end of any task.
func (s *Sim) await(task ref) (types.AnyType, types.BaseMethodFault) {
	ctx := s.fresh()
	done, forget := s.hub.finished(task)
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

// follow waits for the task of a method's answer, if it has one.
func (s *Sim) follow(res soap.HasFault) (types.AnyType, types.BaseMethodFault) {
	if f := res.Fault(); f != nil {
		fault, _ := f.VimFault().(types.BaseMethodFault)
		return nil, fault
	}
	if task, ok := taskOf(res); ok {
		return s.await(task)
	}
	return nil, nil
}

// taskOf is the task that a method's answer names.
func taskOf(res soap.HasFault) (ref, bool) {
	field := reflect.ValueOf(res).Elem().FieldByName("Res")
	if res.Fault() != nil || !field.IsValid() || field.IsNil() {
		return ref{}, false
	}
	value := field.Elem().FieldByName("Returnval")
	if !value.IsValid() {
		return ref{}, false
	}
	task, ok := value.Interface().(ref)
	return task, ok && task.Type == "Task"
}

// inTask answers with a task of ours in place of the method's own.
func (s *Sim) inTask(k *call, do work) soap.HasFault {
	return &taskAnswer{Res: &taskReturn{Returnval: s.runTask(k.this, k.name, do)}}
}

func (s *Sim) runningTasks(ctx *simulator.Context) []string {
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
