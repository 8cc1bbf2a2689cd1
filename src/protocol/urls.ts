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
  }
}

/** Resources with a path of their own. */
export type FixedResource = keyof UrlSettings['paths']

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

export type ResourceName = FixedResource | NumberedResource

/** A path that was recognised: the resource, its id (empty for a fixed one) and the URL that names it. */
export interface ResourceMatch {
  resource: ResourceName
  id: string
  url: string
}

export interface Urls {
  fixed(resource: FixedResource): string
  numbered(resource: NumberedResource, id: string): string
  /** The account id inside a kid, if the kid is an account URL of this service. */
  accountIdOf(kid: string): string | undefined
  match(path: string): ResourceMatch | undefined
}

const ID_LENGTH = 36

export function createUrls(settings: UrlSettings): Urls {
  const root = settings.externalUrl + settings.basePath
  const externalPath = new URL(settings.externalUrl).pathname.replace(/\/$/, '')
  // A proxy in front may strip the path of external_url or leave it; both arrive at the same resource.
  const mounts = [...new Set([externalPath + settings.basePath, settings.basePath])]

  const fixed = new Map<string, ResourceMatch>()
  for (const mount of mounts) {
    for (const [resource, path] of Object.entries(settings.paths) as [FixedResource, string][]) {
      fixed.set(mount + path, { resource, id: '', url: root + path })
    }
  }

  const numbered = mounts.flatMap((mount) =>
    (Object.entries(NUMBERED_RESOURCES) as [NumberedResource, { prefix: string; suffix: string }][]).map(
      ([resource, { prefix, suffix }]) => ({ resource, suffix, mounted: mount + prefix, advertised: root + prefix }),
    ),
  )

  const accountPrefix = root + NUMBERED_RESOURCES.account.prefix

  return {
    fixed: (resource) => root + settings.paths[resource],
    numbered(resource, id) {
      const { prefix, suffix } = NUMBERED_RESOURCES[resource]
      return root + prefix + id + suffix
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
      return undefined
    },
  }
}
