/**
 * All URLs of the service from one table (RFC 8555 §6.4, §7.1). It serves advertising, routing and
 * the check of a JWS `url`.
 */

export interface UrlSettings {
  /** `server.external_url`: scheme, host and an optional path; no trailing slash. */
  externalUrl: string
  /** `api.base_path`, in front of every ACME resource: empty or with a leading slash. */
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
    /** `api.roots_path`; absent where no roots are served. */
    roots?: string
  }
  /** `acme.directory_aliases`: whole paths, below neither the external URL nor `basePath`. */
  directoryAliases?: readonly string[]
}

/** Resources with a path of their own. */
export type FixedResource = Exclude<keyof UrlSettings['paths'], 'renewalInfo' | 'crl' | 'roots'>

/** Resources with an id, placed between `prefix` and `suffix`. */
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

export type ResourceName = FixedResource | NumberedResource | 'renewalInfo' | 'crl' | 'roots'

/** A recognised path: the resource, its id (empty for a fixed one) and its URL. */
export interface ResourceMatch {
  resource: ResourceName
  /** For renewalInfo a certID, for crl the name of a list (empty for the default issuer's). Not checked here. */
  id: string
  /** Number of an alternate chain of a certificate; absent for the default chain. */
  chain?: number
  url: string
}

const ID_LENGTH = 36

/** Follows the id of a certificate; no issuer has a hundred chains. */
const CHAIN_NUMBER = /^\/([1-9][0-9]?)$/

/** The start of the paths and URLs of one kind of resource, before the id. */
interface Prefix {
  resource: NumberedResource
  suffix: string
  mounted: string
  advertised: string
}

/** The path of `server.external_url`, without a slash at its end: empty for a whole host. */
export const externalPathOf = (externalUrl: string): string => new URL(externalUrl).pathname.replace(/\/$/, '')

/** The rest of a path below a base path, such as `/accounts` below `/api`; undefined for a path of others. */
export function pathBelow(path: string, base: string): string | undefined {
  if (!path.startsWith(base)) return undefined
  return path.length === base.length || path[base.length] === '/' ? path.slice(base.length) : undefined
}

/**
 * A request path without the path of the external URL. A proxy may strip that or keep it; both
 * paths name the same resource.
 */
export function behindExternalPath(path: string, externalPath: string): string {
  return externalPath === '' ? path : (pathBelow(path, externalPath) ?? path)
}

/** The bound of paths that accounts had at a former server. */
export const MAX_PATH_LENGTH = 255

/** Visible ASCII, as a URL has it: PostgreSQL refuses a text with a NUL, and so would end a whole batch of look-ups. */
export const isPathOfUrl = (path: string): boolean => path.length <= MAX_PATH_LENGTH && /^\/[\x21-\x7e]*$/.test(path)

/** The path of an absolute URL, or the path itself. */
export function pathOfUrl(url: string): string {
  return URL.canParse(url) ? new URL(url).pathname : url
}

export class Urls {
  readonly #origin: string
  readonly #root: string
  readonly #paths: UrlSettings['paths']
  /** Prefixes of request paths. */
  readonly #mounts: readonly string[]
  readonly #fixed = new Map<string, ResourceMatch>()
  readonly #prefixes: readonly Prefix[]
  readonly #accountPrefix: string
  /** The start of hashed account URIs (draft-ietf-acme-dns-persist-02 §4.1); no resource is served there. */
  readonly accountHashPrefix: string
  /** The base URL for certIDs (RFC 9773 §4.1); undefined where renewal information is off. */
  readonly renewalInfo: string | undefined

  constructor({ externalUrl, basePath, paths, directoryAliases = [] }: UrlSettings) {
    const root = externalUrl + basePath
    this.#origin = new URL(externalUrl).origin
    this.#root = root
    this.#paths = paths
    // A request may have the path of the external URL or not (`behindExternalPath`).
    this.#mounts = [...new Set([externalPathOf(externalUrl) + basePath, basePath])]
    const { renewalInfo, crl: _, ...fixed } = paths
    for (const mount of this.#mounts) {
      for (const [resource, path] of Object.entries(fixed) as [FixedResource | 'roots', string][]) {
        this.#fixed.set(mount + path, { resource, id: '', url: root + path })
      }
    }
    for (const path of directoryAliases) this.#fixed.set(path, { resource: 'directory', id: '', url: this.at(path) })
    this.#prefixes = this.#mounts.flatMap((mount) => prefixesBelow(mount, root))
    this.#accountPrefix = root + NUMBERED_RESOURCES.account.prefix
    this.accountHashPrefix = `${root}/account-hash/`
    this.renewalInfo = renewalInfo === undefined ? undefined : root + renewalInfo
  }

  fixed(resource: FixedResource): string {
    return this.#root + this.#paths[resource]
  }

  numbered(resource: NumberedResource, id: string): string {
    const { prefix, suffix } = NUMBERED_RESOURCES[resource]
    return this.#root + prefix + id + suffix
  }

  /** The URL of a whole path on the host of this service. */
  at(path: string): string {
    return this.#origin + path
  }

  /** @param path by which its client names it, where that is a former server's */
  account(id: string, path?: string): string {
    return path === undefined ? this.numbered('account', id) : this.at(path)
  }

  /** URL of a certificate with one of its chains (RFC 8555 §7.4.2); 0 is the certificate's own URL. */
  certificateChain(id: string, chain: number): string {
    const url = this.numbered('certificate', id)
    return chain === 0 ? url : `${url}/${chain}`
  }

  /** The URL of the CRL with this name; undefined where none is published. */
  crl(name: string): string | undefined {
    const { crl } = this.#paths
    return crl === undefined ? undefined : `${this.#root}${crl}/${name}`
  }

  /** The account id inside a kid, if the kid is an account URL of this service. */
  accountIdOf(kid: string): string | undefined {
    const prefix = this.#accountPrefix
    return kid.length === prefix.length + ID_LENGTH && kid.startsWith(prefix) ? kid.slice(prefix.length) : undefined
  }

  /** The path of a kid on this host; undefined where no account can have it (docs/decisions/path-map.md). */
  pathOf(kid: string): string | undefined {
    const path = kid.slice(this.#origin.length)
    return kid.startsWith(`${this.#origin}/`) && isPathOfUrl(path) ? path : undefined
  }

  match(path: string): ResourceMatch | undefined {
    return (
      this.#fixed.get(path) ??
      this.#matchNumbered(path) ??
      this.#matchChain(path) ??
      this.#matchRenewalInfo(path) ??
      this.#matchCrl(path)
    )
  }

  #matchNumbered(path: string): ResourceMatch | undefined {
    for (const { resource, suffix, mounted, advertised } of this.#prefixes) {
      if (path.length !== mounted.length + ID_LENGTH + suffix.length) continue
      if (!path.startsWith(mounted) || !path.endsWith(suffix)) continue
      const id = path.slice(mounted.length, mounted.length + ID_LENGTH)
      return { resource, id, url: advertised + id + suffix }
    }
    return undefined
  }

  #matchChain(path: string): ResourceMatch | undefined {
    for (const { resource, mounted, advertised } of this.#prefixes) {
      if (resource !== 'certificate' || !path.startsWith(mounted)) continue
      const id = path.slice(mounted.length, mounted.length + ID_LENGTH)
      const [tail, number] = CHAIN_NUMBER.exec(path.slice(mounted.length + ID_LENGTH)) ?? []
      if (tail !== undefined) return { resource, id, chain: Number(number), url: advertised + id + tail }
    }
    return undefined
  }

  #matchRenewalInfo(path: string): ResourceMatch | undefined {
    const { renewalInfo } = this.#paths
    if (renewalInfo === undefined) return undefined
    for (const mount of this.#mounts) {
      const prefix = `${mount}${renewalInfo}/`
      if (!path.startsWith(prefix)) continue
      const id = path.slice(prefix.length)
      return { resource: 'renewalInfo', id, url: `${this.#root}${renewalInfo}/${id}` }
    }
    return undefined
  }

  #matchCrl(path: string): ResourceMatch | undefined {
    const { crl } = this.#paths
    if (crl === undefined) return undefined
    for (const mount of this.#mounts) {
      const prefix = mount + crl
      if (!path.startsWith(prefix)) continue
      const rest = path.slice(prefix.length)
      if (rest === '' || rest.startsWith('/'))
        return { resource: 'crl', id: rest.slice(1), url: this.#root + crl + rest }
    }
    return undefined
  }
}

function prefixesBelow(mount: string, root: string): Prefix[] {
  return Object.entries(NUMBERED_RESOURCES).map(([resource, { prefix, suffix }]) => {
    return { resource: resource as NumberedResource, suffix, mounted: mount + prefix, advertised: root + prefix }
  })
}
