package main

import (
	"net/http"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// What an administrator does to whole folders behind the client's back. A folder keeps its id, and what is in it.

func (s *Sim) controlFolder(r *http.Request) (ref, error) {
	folder := ref{Type: "Folder", Value: r.PathValue("moid")}
	if _, ok := s.fresh().Map.Get(folder).(*simulator.Folder); !ok {
		return folder, refuse(http.StatusNotFound, "folder %s does not exist", folder.Value)
	}
	return folder, nil
}

// controlRenameFolder gives a folder another name.
func (s *Sim) controlRenameFolder(r *http.Request) (any, error) {
	var order struct {
		Name string `json:"name"`
	}
	folder, err := s.controlFolder(r)
	if err == nil {
		err = decodeStrict(r, &order)
	}
	if err != nil {
		return nil, err
	}
	return nil, s.behind(folder, "Rename_Task", &types.Rename_Task{This: folder, NewName: order.Name})
}

// controlMoveFolder puts a folder with all that is in it into another.
func (s *Sim) controlMoveFolder(r *http.Request) (any, error) {
	var order struct {
		Folder string `json:"folder"`
	}
	folder, err := s.controlFolder(r)
	if err == nil {
		err = decodeStrict(r, &order)
	}
	if err != nil {
		return nil, err
	}
	parent := ref{Type: "Folder", Value: order.Folder}
	return nil, s.behind(parent, "MoveIntoFolder_Task", &types.MoveIntoFolder_Task{This: parent, List: []ref{folder}})
}
