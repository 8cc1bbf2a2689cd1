/**
 * Every URL of the service, from one table: what is advertised, what is routed and what a JWS `url` is compared with
 * (RFC 8555 §6.4, §7.1).
 */

export interface UrlSettings {
  /** `server.external_url`: scheme, host and perhaps a path; no trailing slash. */
  externalUrl: string
  /** `api.base_path`, empty or starting with a slash; in front of every ACME resource. */
  basePath: string
  /** `acme.paths.*`. */
  paths: {
    directory: string
    newNonce: string
    newAccount: string
    newOrder: string
    newAuthz: string
    revokeCert: string
    keyChange: string
    /** `ari.path`; absent where renewal information is off. */
    renewalInfo?: string
    /** `crl.path`; absent where no CRL is published. */
    crl?: string
  }
}

/** Resources with a path of their own. */
export type FixedResource = Exclude<keyof UrlSettings['paths'], 'renewalInfo' | 'crl'>

/** Resources that are one of many: where the id stands between `prefix` and `suffix`. */
export const NUMBERED_RESOURCES = {
  account: { prefix: '/acct/', suffix: '' },
  accountOrders: { prefix: '/acct/', suffix: '/orders' },
  order: { prefix: '/order/', suffix: '' },
  finalize: { prefix: '/order/', suffix: '/finalize' },
  authorization: { prefix: '/authz/', suffix: '' },
  challenge: { prefix: '/chall/', suffix: '' },
  certificate: { prefix: '/cert/', suffix: '' },
} as const satisfies Record<string, { prefix: string; suffix: string }>

export type NumberedResource = keyof typeof NUMBERED_RESOURCES

export type ResourceName = FixedResource | NumberedResource | 'renewalInfo' | 'crl'

/** A path that was recognised: the resource, its id (empty for a fixed one) and the URL that names it. */
export interface ResourceMatch {
  resource: ResourceName
  /** A certID for renewalInfo, the name of a list for crl (empty: the default issuer's); not checked here. */
  id: string
  /** Number of an alternate chain of a certificate; absent for the default one. */
  chain?: number
  url: string
}

export interface Urls {
  fixed(resource: FixedResource): string
  numbered(resource: NumberedResource, id: string): string
  /** A certificate with one of its chains (RFC 8555 §7.4.2); 0 is the certificate's own URL. */
  certificateChain(id: string, chain: number): string
  /** What hashed account URIs begin with (draft-ietf-acme-dns-persist-02 §4.1); nothing is served below it. */
  readonly accountHashPrefix: string
  /** Where certIDs are appended to (RFC 9773 §4.1); undefined where renewal information is off. */
  readonly renewalInfo: string | undefined
  /** Where a CRL is published: the path of its name. Undefined where none is. */
  crl(name: string): string | undefined
  /** The account id inside a kid, if the kid is an account URL of this service. */
  accountIdOf(kid: string): string | undefined
  match(path: string): ResourceMatch | undefined
}

const ID_LENGTH = 36

/** Behind the id of a certificate; no issuer has a hundred chains. */
const CHAIN_NUMBER = /^\/([1-9][0-9]?)$/

export function createUrls(settings: UrlSettings): Urls {
  const root = settings.externalUrl + settings.basePath
  const { renewalInfo, crl, ...paths } = settings.paths
  const externalPath = new URL(settings.externalUrl).pathname.replace(/\/$/, '')
  // A proxy in front may strip the path of external_url or leave it; both arrive at the same resource.
  const mounts = [...new Set([externalPath + settings.basePath, settings.basePath])]

  const fixed = new Map<string, ResourceMatch>()
  for (const mount of mounts) {
    for (const [resource, path] of Object.entries(paths) as [FixedResource, string][]) {
      fixed.set(mount + path, { resource, id: '', url: root + path })
    }
  }

  const numbered = mounts.flatMap((mount) =>
    (Object.entries(NUMBERED_RESOURCES) as [NumberedResource, { prefix: string; suffix: string }][]).map(
      ([resource, { prefix, suffix }]) => ({ resource, suffix, mounted: mount + prefix, advertised: root + prefix }),
    ),
  )

  function matchChain(path: string): ResourceMatch | undefined {
    for (const { resource, mounted, advertised } of numbered) {
      if (resource !== 'certificate' || !path.startsWith(mounted)) continue
      const id = path.slice(mounted.length, mounted.length + ID_LENGTH)
      const [tail, number] = CHAIN_NUMBER.exec(path.slice(mounted.length + ID_LENGTH)) ?? []
      if (tail !== undefined) return { resource, id, chain: Number(number), url: advertised + id + tail }
    }
    return undefined
  }

  function matchRenewalInfo(path: string): ResourceMatch | undefined {
    if (renewalInfo === undefined) return undefined
    for (const mount of mounts) {
      const prefix = `${mount}${renewalInfo}/`
      if (!path.startsWith(prefix)) continue
      const id = path.slice(prefix.length)
      return { resource: 'renewalInfo', id, url: `${root}${renewalInfo}/${id}` }
    }
    return undefined
  }

  function matchCrl(path: string): ResourceMatch | undefined {
    if (crl === undefined) return undefined
    for (const mount of mounts) {
      const prefix = mount + crl
      if (!path.startsWith(prefix)) continue
      const rest = path.slice(prefix.length)
      if (rest === '' || rest.startsWith('/')) return { resource: 'crl', id: rest.slice(1), url: root + crl + rest }
    }
    return undefined
  }

  const accountPrefix = root + NUMBERED_RESOURCES.account.prefix

  return {
    fixed: (resource) => root + paths[resource],
    accountHashPrefix: `${root}/account-hash/`,
    renewalInfo: renewalInfo === undefined ? undefined : root + renewalInfo,
    crl: (name) => (crl === undefined ? undefined : `${root}${crl}/${name}`),
    numbered(resource, id) {
      const { prefix, suffix } = NUMBERED_RESOURCES[resource]
      return root + prefix + id + suffix
    },
    certificateChain(id, chain) {
      const { prefix } = NUMBERED_RESOURCES.certificate
      return chain === 0 ? root + prefix + id : `${root}${prefix}${id}/${chain}`
    },
    accountIdOf: (kid) =>
      kid.length === accountPrefix.length + ID_LENGTH && kid.startsWith(accountPrefix)
        ? kid.slice(accountPrefix.length)
        : undefined,
    match(path) {
      const exact = fixed.get(path)
      if (exact) return exact
      for (const { resource, suffix, mounted, advertised } of numbered) {
        if (path.length !== mounted.length + ID_LENGTH + suffix.length) continue
        if (!path.startsWith(mounted) || !path.endsWith(suffix)) continue
        const id = path.slice(mounted.length, mounted.length + ID_LENGTH)
        return { resource, id, url: advertised + id + suffix }
      }
      return matchChain(path) ?? matchRenewalInfo(path) ?? matchCrl(path)
    },
  }
}
