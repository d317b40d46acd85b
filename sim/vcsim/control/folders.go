package control

import (
	"net/http"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/vim"
)

// What an administrator does to whole folders behind the client's back. A folder keeps its id, and what is in it.

func (api *API) controlFolder(r *http.Request) (vim.Ref, error) {
	folder := vim.Ref{Type: "Folder", Value: r.PathValue("moid")}
	if _, ok := api.Fresh().Map.Get(folder).(*simulator.Folder); !ok {
		return folder, refuse(http.StatusNotFound, "folder %s does not exist", folder.Value)
	}
	return folder, nil
}

// controlRenameFolder gives a folder another name.
func (api *API) controlRenameFolder(r *http.Request) (any, error) {
	var order struct {
		Name string `json:"name"`
	}
	folder, err := api.controlFolder(r)
	if err == nil {
		err = decodeStrict(r, &order)
	}
	if err != nil {
		return nil, err
	}
	return nil, api.behind(folder, "Rename_Task", &types.Rename_Task{This: folder, NewName: order.Name})
}

// controlMoveFolder puts a folder with all that is in it into another.
func (api *API) controlMoveFolder(r *http.Request) (any, error) {
	var order struct {
		Folder string `json:"folder"`
	}
	folder, err := api.controlFolder(r)
	if err == nil {
		err = decodeStrict(r, &order)
	}
	if err != nil {
		return nil, err
	}
	parent := vim.Ref{Type: "Folder", Value: order.Folder}
	return nil, api.behind(parent, "MoveIntoFolder_Task", &types.MoveIntoFolder_Task{This: parent, List: []vim.Ref{folder}})
}
