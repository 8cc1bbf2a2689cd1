/** Identity providers of the field send and ask this, as docs/operations/identity-providers.md says with its sources. */

import type { HostileProvider } from './hostile-provider.ts'

type Says = HostileProvider['says']

interface Shape {
  says: Says
  /** The user that comes of it, with the configuration of the page. */
  username: string
  /** Some things may be otherwise there, and nobody is signed in then: the page says why, or the log. */
  refused: Record<string, { says: Says; told?: RegExp; logged?: RegExp }>
}

const metadata = (...methods: string[]) => ({ token_endpoint_auth_methods_supported: methods })
/** Without RFC 9207. */
const older = (...methods: string[]) => ({
  ...metadata(...methods),
  authorization_response_iss_parameter_supported: false,
})

const GROUP = 'd6d6e3f0-5c6a-4b6f-9d8e-0f2f6a1c7b11'
const ANNA = { email: 'anna@corp.example', email_verified: true }
const ENTRA = {
  sub: 'AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ',
  oid: '00000000-0000-0000-66f3-3332eca7ea81',
  tid: '8b87af7d-8647-4dc7-8df4-5f69a2011bb5',
  ver: '2.0',
  preferred_username: 'anna@corp.example',
  email: 'anna@corp.example',
}
const KEYCLOAK = { sub: 'f1b9c3d0-7a51-4f0e-8f0e-0d8f7a5b1c22', preferred_username: 'anna', ...ANNA }
const AUTHENTIK = { sub: 'b1f5', preferred_username: 'anna', groups: ['pki-admins'], ...ANNA }
const ADFS = { sub: 'x1Yb', upn: 'anna@corp.example', unique_name: 'CORP\\anna', email: 'anna@corp.example' }

export const SHAPES: Record<string, Shape> = {
  Keycloak: {
    says: {
      metadata: metadata('private_key_jwt', 'client_secret_basic', 'client_secret_post', 'tls_client_auth'),
      person: { ...KEYCLOAK, groups: ['/pki-admins'] },
    },
    username: 'anna',
    refused: {
      'groups without their path': {
        says: { person: { ...KEYCLOAK, groups: ['pki-admins'] } },
        told: /none of your groups may sign in here: \["pki-admins"\]/,
      },
      'no mapper for groups': {
        says: { person: KEYCLOAK, userInfo: KEYCLOAK },
        told: /no claim 'groups', .*admin_api\.oidc\.groups_claim/,
      },
      'an address that is not verified': {
        says: { person: { ...KEYCLOAK, groups: ['/pki-admins'], email_verified: false } },
        told: /not verified your mail address anna@corp\.example: its claim 'email_verified' is false/,
      },
    },
  },
  'Entra ID': {
    says: {
      metadata: older('client_secret_post', 'private_key_jwt', 'client_secret_basic'),
      person: { ...ENTRA, groups: [GROUP] },
    },
    username: 'anna@corp.example',
    refused: {
      'more than 200 groups': {
        says: {
          person: {
            ...ENTRA,
            _claim_names: { groups: 'src1' },
            _claim_sources: { src1: { endpoint: 'https://graph.microsoft.com/v1.0/users/x/getMemberObjects' } },
          },
          userInfo: { sub: ENTRA.sub, name: 'Anna' },
        },
        told: /more groups than the provider puts into a token/,
      },
      'another tenant': {
        says: { person: { ...ENTRA, iss: 'https://login.microsoftonline.com/another/v2.0', groups: [GROUP] } },
        logged: /iss is "https:\/\/login\.microsoftonline\.com\/another\/v2\.0", expected "http/,
      },
    },
  },
  Authelia: {
    says: {
      metadata: metadata('client_secret_basic', 'client_secret_post', 'client_secret_jwt', 'private_key_jwt', 'none'),
      clientBy: 'client_secret_basic',
      person: { sub: '1c4c', auth_time: 1 },
      userInfo: { sub: '1c4c', preferred_username: 'anna', groups: ['pki-admins'], ...ANNA },
    },
    username: 'anna',
    refused: {
      'a client for client_secret_post': {
        says: { clientBy: 'client_secret_post' },
        logged: /HTTP status 401 of .*\/token; where .* compare .*token_endpoint_auth_method$/,
      },
      'no scope groups': {
        says: { userInfo: { sub: '1c4c', preferred_username: 'anna', ...ANNA } },
        told: /no claim 'groups'/,
      },
    },
  },
  'Ory Hydra': {
    says: {
      metadata: metadata('client_secret_post', 'client_secret_basic', 'private_key_jwt', 'none'),
      clientBy: 'client_secret_basic',
      person: { sub: 'anna', preferred_username: 'anna', groups: ['pki-admins'], ...ANNA },
    },
    username: 'anna',
    refused: {
      'a consent page that adds no claims': {
        says: { person: { sub: 'anna' }, userInfo: { sub: 'anna' } },
        told: /no claim 'groups'/,
      },
    },
  },
  Okta: {
    says: {
      metadata: metadata('client_secret_basic', 'client_secret_post', 'client_secret_jwt', 'private_key_jwt', 'none'),
      person: { sub: '00uid4BxXw6I6TV4m0g3', auth_time: 1 },
      userInfo: {
        sub: '00uid4BxXw6I6TV4m0g3',
        preferred_username: 'anna@corp.example',
        groups: ['Everyone', 'pki-admins'],
        ...ANNA,
      },
    },
    username: 'anna@corp.example',
    refused: {
      'no groups claim of the application': {
        says: { userInfo: { sub: '00uid4BxXw6I6TV4m0g3', preferred_username: 'anna@corp.example', ...ANNA } },
        told: /no claim 'groups'/,
      },
    },
  },
  Google: {
    says: {
      metadata: older('client_secret_post', 'client_secret_basic'),
      person: { sub: '10769150350006150715113082367', hd: 'corp.example', ...ANNA },
      userInfo: { sub: '10769150350006150715113082367', hd: 'corp.example', ...ANNA },
    },
    username: 'anna@corp.example',
    refused: {
      'an account of another domain': {
        says: { person: { sub: '2', hd: 'other.example', ...ANNA } },
        told: /none of your groups may sign in here: \["other\.example"\]/,
      },
      'an account of nobody’s domain': {
        says: { person: { sub: '3', ...ANNA }, userInfo: { sub: '3', ...ANNA } },
        told: /no claim 'hd'/,
      },
    },
  },
  GitLab: {
    says: {
      metadata: older('client_secret_basic', 'client_secret_post'),
      person: { sub: '42', groups_direct: ['corp/pki'], ...ANNA },
      userInfo: { sub: '42', nickname: 'anna', preferred_username: 'anna', groups: ['corp', 'corp/pki'], ...ANNA },
    },
    username: 'anna',
    refused: {
      'no scope email, and no public address': {
        says: {
          person: { sub: '42', groups_direct: ['corp/pki'] },
          userInfo: { sub: '42', preferred_username: 'anna', groups: ['corp/pki'] },
        },
        told: /no claim 'email', .*admin_api\.oidc\.scopes/,
      },
    },
  },
  authentik: {
    says: { metadata: older('client_secret_post', 'client_secret_basic'), person: AUTHENTIK },
    username: 'anna',
    refused: {
      'the default mapping of mail addresses': {
        says: { person: { ...AUTHENTIK, email_verified: false } },
        told: /its claim 'email_verified' is false/,
      },
      'no signing key': {
        says: {
          metadata: { ...older('client_secret_post'), id_token_signing_alg_values_supported: ['HS256'] },
          signedBy: 'hmac',
        },
        logged: /unsupported JWS algorithm; alg is "HS256"/,
      },
    },
  },
  'AD FS': {
    says: {
      metadata: older('client_secret_post', 'client_secret_basic', 'private_key_jwt', 'windows_client_authentication'),
      person: { ...ADFS, groups: 'pki-admins' },
      userInfo: { sub: ADFS.sub },
    },
    username: 'anna@corp.example',
    refused: {
      'no rule for the mail address': {
        says: { person: { ...ADFS, email: undefined, groups: ['pki-admins'] } },
        told: /no claim 'email'/,
      },
      'no scope allatclaims': { says: { person: ADFS }, told: /no claim 'groups'/ },
    },
  },
}
