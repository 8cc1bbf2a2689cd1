/** What a provider of OpenID Connect knows the service by; apart from the provider, whose module takes long to load. */
export const CLIENT = { id: 'chancery', secret: 'a secret of the tests that is long enough' }
