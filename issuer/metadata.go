package issuer

import (
	"context"
	"net/http"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// Keys implements op.Server.
func (i *Issuer) Keys(context.Context, *op.Request[struct{}]) (*op.Response, error) {
	return op.NewResponse(i.keys), nil
}

// metadataServer serves one document at each of its places.
type metadataServer struct {
	op.UnimplementedMetadataServer
	i *Issuer
}

// OpenIDConfiguration implements op.MetadataServer (OpenID Connect Discovery).
func (m metadataServer) OpenIDConfiguration(ctx context.Context, r *op.Request[op.MetadataRequest]) (*op.Response, error) {
	return m.AuthorizationServerMetadata(ctx, r)
}

// metadata is the library's document with what it has no field for.
type metadata struct {
	oidc.DiscoveryConfiguration
	ISS bool `json:"authorization_response_iss_parameter_supported"` // RFC 9207
}

// AuthorizationServerMetadata implements op.MetadataServer (RFC 8414).
func (m metadataServer) AuthorizationServerMetadata(ctx context.Context, r *op.Request[op.MetadataRequest]) (*op.Response, error) {
	i := m.i
	if at := r.Data.IssuerPath; at != Path && at != i.path() {
		return nil, op.NewStatusError(oidc.ErrInvalidRequest().WithDescription("no metadata at this path"), http.StatusNotFound)
	}
	scopes := []string{oidc.ScopeOpenID, oidc.ScopeOfflineAccess}
	if d, err := i.directory(ctx); err == nil {
		scopes = append(scopes, d.scopes()...)
	}
	methods := []oidc.AuthMethod{oidc.AuthMethodNone, oidc.AuthMethodBasic, oidc.AuthMethodPost}
	return op.NewResponse(metadata{ISS: true, DiscoveryConfiguration: oidc.DiscoveryConfiguration{
		Issuer:                                    i.url,
		AuthorizationEndpoint:                     endpoints.Authorization.Absolute(i.url),
		TokenEndpoint:                             endpoints.Token.Absolute(i.url),
		IntrospectionEndpoint:                     endpoints.Introspection.Absolute(i.url),
		RevocationEndpoint:                        endpoints.Revocation.Absolute(i.url),
		JwksURI:                                   endpoints.JwksURI.Absolute(i.url),
		RegistrationEndpoint:                      i.url + "/register",
		ScopesSupported:                           scopes,
		ResponseTypesSupported:                    []string{string(oidc.ResponseTypeCode)},
		ResponseModesSupported:                    []string{string(oidc.ResponseModeQuery)},
		GrantTypesSupported:                       []oidc.GrantType{oidc.GrantTypeCode, oidc.GrantTypeRefreshToken, oidc.GrantTypeClientCredentials, oidc.GrantTypeTokenExchange},
		SubjectTypesSupported:                     []string{"public"},
		IDTokenSigningAlgValuesSupported:          []string{"EdDSA"},
		TokenEndpointAuthMethodsSupported:         methods,
		RevocationEndpointAuthMethodsSupported:    methods,
		IntrospectionEndpointAuthMethodsSupported: methods[1:],
		CodeChallengeMethodsSupported:             []oidc.CodeChallengeMethod{oidc.CodeChallengeMethodS256},
	}}), nil
}
