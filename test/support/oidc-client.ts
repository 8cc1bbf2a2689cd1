/** A provider of OpenID Connect knows the service by this. The module of the provider takes long to load. */
export const CLIENT = { id: 'chancery', secret: 'a secret of the tests that is long enough' }
