// Package policy is the service of storage policies.
package policy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	pbmmethods "github.com/vmware/govmomi/pbm/methods"
	pbmsim "github.com/vmware/govmomi/pbm/simulator"
	pbmtypes "github.com/vmware/govmomi/pbm/types"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/traffic"
	"layercake.invalid/sim/vcsim/vim"
	"layercake.invalid/sim/vcsim/wire"
)

// Storage policies are a service of their own: /pbm over SOAP, a prefix of the path over VI/JSON.

// pbmNames are the types that come over VI/JSON, where they have no namespace.
var pbmNames = []reflect.Type{
	reflect.TypeFor[pbmtypes.PbmRetrieveServiceContent](),
	reflect.TypeFor[pbmtypes.PbmQueryProfile](),
	reflect.TypeFor[pbmtypes.PbmRetrieveContent](),
	reflect.TypeFor[pbmtypes.PbmCheckRequirements](),
	reflect.TypeFor[pbmtypes.PbmPlacementCapabilityProfileRequirement](),
}

func init() {
	for _, t := range pbmNames {
		types.Add(t.Name(), t)
	}
}

// Policies are the storage policies, a service beside VIM's.
type Policies struct {
	*core.VCenter
	registry *simulator.Registry // of the service
	fitting  map[string][]string // datastores that satisfy a policy, by its id
}

// New gives the service without any policies.
func New(vc *core.VCenter) *Policies { return &Policies{VCenter: vc} }

// solver knows which datastores satisfy which policy; the library's says all do.
type solver struct {
	types.ManagedObjectReference
	policies *Policies
	profile  *pbmsim.ProfileManager
}

// Connect makes the policies of the spec and serves them on both wires.
func (p *Policies) Connect() error {
	p.registry = pbmsim.New()
	profiles := p.registry.Get(vim.Ref{Type: "PbmProfileProfileManager", Value: "ProfileManager"}).(*pbmsim.ProfileManager)
	p.Found.StoragePolicies = map[string]string{}
	p.fitting = map[string][]string{}
	ctx := p.Fresh()
	ctx.Session = &simulator.Session{UserSession: types.UserSession{UserName: p.Inner.UserName}}
	for _, policy := range p.Options.Spec.StoragePolicies {
		made := profiles.PbmCreate(ctx, &pbmtypes.PbmCreate{CreateSpec: pbmtypes.PbmCapabilityProfileCreateSpec{
			Name: policy.Name, Category: "REQUIREMENT", ResourceType: pbmtypes.PbmProfileResourceType{ResourceType: "STORAGE"},
			Constraints: placedByTag(policy.Name),
		}})
		id := made.(*pbmmethods.PbmCreateBody).Res.Returnval.UniqueId
		p.Found.StoragePolicies[policy.Name] = id
		p.fitting[id] = []string{}
		for _, name := range policy.Datastores {
			datastore, ok := p.Found.Datastores[name]
			if !ok {
				return fmt.Errorf("storage policy %s: no datastore %s", policy.Name, name)
			}
			p.fitting[id] = append(p.fitting[id], datastore)
		}
	}
	place := vim.Ref{Type: "PbmPlacementSolver", Value: "placementSolver"}
	p.registry.Put(&solver{ManagedObjectReference: place, policies: p, profile: profiles})
	p.registry.Handler = func(_ *simulator.Context, m *simulator.Method) (mo.Reference, types.BaseMethodFault) {
		p.Counters.Add(traffic.SOAP, m.Name)
		return nil, nil
	}
	p.Service.RegisterSDK(p.registry)
	return nil
}

// PbmCheckRequirements tells of every datastore, with what is wrong with those that do not satisfy the policies.
func (p *solver) PbmCheckRequirements(ctx *simulator.Context, req *pbmtypes.PbmCheckRequirements) soap.HasFault {
	wanted := []string{}
	for _, requirement := range req.PlacementSubjectRequirement {
		if r, ok := requirement.(*pbmtypes.PbmPlacementCapabilityProfileRequirement); ok {
			wanted = append(wanted, r.ProfileId.UniqueId)
		}
	}
	for _, id := range wanted {
		content := p.profile.PbmRetrieveContent(&pbmtypes.PbmRetrieveContent{ProfileIds: []pbmtypes.PbmProfileId{{UniqueId: id}}})
		if content.Fault() != nil {
			return content
		}
	}
	res := &pbmtypes.PbmCheckRequirementsResponse{}
	for _, e := range ctx.For(vim25.Path).Map.All("Datastore") {
		self := e.Reference()
		result := pbmtypes.PbmPlacementCompatibilityResult{
			Hub: pbmtypes.PbmPlacementHub{HubType: self.Type, HubId: self.Value},
		}
		for _, id := range wanted {
			if fitting, ours := p.policies.fitting[id]; ours && !slices.Contains(fitting, self.Value) {
				result.Error = append(result.Error, types.LocalizedMethodFault{
					Fault:            &pbmtypes.PbmCompatibilityCheckFault{Hub: result.Hub},
					LocalizedMessage: "The datastore does not satisfy the policy.",
				})
			}
		}
		res.Returnval = append(res.Returnval, result)
	}
	return &pbmmethods.PbmCheckRequirementsBody{Res: res}
}

// policiesSince are the versions of the policies' service with which methods came that not all of its versions have.
var policiesSince = map[string]string{"PbmCheckRequirements": "6.5"}

// Serve refuses what the version that the client speaks does not have. A client that names none has the newest.
func (p *Policies) Serve(w http.ResponseWriter, r *http.Request) {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(content))
	_, version, _ := strings.Cut(strings.Trim(r.Header.Get("SOAPAction"), `"`), "urn:pbm/")
	method, err := wire.ReadMethod(content)
	if err != nil || version == "" {
		p.Service.ServeMux.ServeHTTP(w, r)
		return
	}
	switch {
	case compareReleases(version, p.Options.Spec.APIRelease) > 0:
		wire.RefuseSOAP(w, "ServerFaultCode", "Unsupported version URI urn:pbm/"+version, "InvalidRequest", "")
	case compareReleases(version, policiesSince[method.Name.Local]) < 0:
		p.Counters.Add(traffic.SOAP, method.Name.Local)
		wire.RefuseSOAP(w, "ServerFaultCode", "The method is not implemented", "MethodNotFound", `<method>`+method.Name.Local+`</method>`)
	default:
		p.Service.ServeMux.ServeHTTP(w, r)
	}
}

// compareReleases compares by number; no release is older than all.
func compareReleases(a, b string) int {
	numbers := func(release string) (all []int) {
		for part := range strings.SplitSeq(release, ".") {
			n, _ := strconv.Atoi(part)
			all = append(all, n)
		}
		return all
	}
	return slices.Compare(numbers(a), numbers(b))
}

// Invoke calls a method of the policies' service that came over VI/JSON.
func (p *Policies) Invoke(ctx *simulator.Context, k *core.Call, body types.AnyType) soap.HasFault {
	this, name := k.This, k.Name
	target := p.registry.Get(this)
	if target == nil {
		return vim.Gone(this)
	}
	method := reflect.ValueOf(target).MethodByName(name)
	if !method.IsValid() {
		return vim.FaultBody("The method is not implemented", &types.MethodNotFound{Receiver: this, Method: name})
	}
	args := []reflect.Value{reflect.ValueOf(body)}
	if method.Type().NumIn() == 2 {
		args = append([]reflect.Value{reflect.ValueOf(ctx)}, args...)
	}
	return method.Call(args)[0].Interface().(soap.HasFault)
}
