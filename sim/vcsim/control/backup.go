package control

import "net/http"

func (api *API) controlBackup(*http.Request) (any, error) {
	api.Backups.Take()
	return nil, nil
}

func (api *API) controlRestore(*http.Request) (any, error) {
	if there, err := api.Backups.Restore(); there || err != nil {
		return nil, err
	}
	return nil, refuse(http.StatusConflict, "there is no backup")
}

// controlReconnect has the hosts connected again, by which vCenter finds the VMs that it does not know.
func (api *API) controlReconnect(*http.Request) (any, error) {
	if err := api.Backups.Discover(); err != nil {
		return nil, refuse(http.StatusConflict, "%v", err)
	}
	return nil, nil
}
