package policy

import (
	"net/http"
	"regexp"
	"strings"

	pbmtypes "github.com/vmware/govmomi/pbm/types"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/traffic"
)

// placedByTag is the rule of a policy that wants datastores with a tag of its name.
func placedByTag(tag string) *pbmtypes.PbmCapabilitySubProfileConstraints {
	const category = "storage"
	return &pbmtypes.PbmCapabilitySubProfileConstraints{SubProfiles: []pbmtypes.PbmCapabilitySubProfile{{
		Name: "Tag based placement",
		Capability: []pbmtypes.PbmCapabilityInstance{{
			Id: pbmtypes.PbmCapabilityMetadataUniqueId{Namespace: "http://www.vmware.com/storage/tag", Id: category},
			Constraint: []pbmtypes.PbmCapabilityConstraintInstance{{
				PropertyInstance: []pbmtypes.PbmCapabilityPropertyInstance{{
					Id:    "com.vmware.storage.tag." + category + ".property",
					Value: pbmtypes.PbmCapabilityDiscreteSet{Values: []types.AnyType{tag}},
				}},
			}},
		}},
	}}}
}

// late is what policies have of a later release than those that are simulated.
var late = regexp.MustCompile(`<k8sCompliantName>[^<]*</k8sCompliantName>|,"k8sCompliantName":"[^"]*"`)

// foreign are elements whose types are VIM's: they are in VIM's namespace, below others that are in the policies'.
var foreign = strings.NewReplacer(
	"<fault ", `<vim25:fault xmlns:vim25="urn:vim25" `, "</fault>", "</vim25:fault>",
	"<localizedMessage>", `<vim25:localizedMessage xmlns:vim25="urn:vim25">`, "</localizedMessage>", "</vim25:localizedMessage>",
)

// AsPolicies gives answers of the policies' service the form that vCenter's have.
func AsPolicies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		overSOAP := r.URL.Path == "/pbm"
		if !overSOAP && !strings.HasPrefix(r.URL.Path, "/sdk/") || !strings.Contains(r.URL.Path, "/pbm") {
			next.ServeHTTP(w, r)
			return
		}
		out := traffic.NewAnswer()
		next.ServeHTTP(out, r)
		text := late.ReplaceAllString(out.Body.String(), "")
		if overSOAP {
			text = foreign.Replace(text)
		}
		out.Body.Reset()
		_, _ = out.Write([]byte(text))
		out.Send(w)
	})
}
