/** Finds the endpoint of a path. Parameters are one path segment each. */

import { AdminError, notFound } from '../domain/admin-error.ts'
import type { AnyEndpoint } from './admin-endpoint.ts'

interface RouteMatch {
  endpoint: AnyEndpoint
  params: Record<string, string>
}

interface Route {
  segments: readonly string[]
  byMethod: Map<string, AnyEndpoint>
}

export class Router {
  readonly #routes = new Map<string, Route>()

  constructor(endpoints: readonly AnyEndpoint[]) {
    for (const endpoint of endpoints)
      for (const path of [endpoint.path, ...(endpoint.aliases ?? [])]) this.#add(path, endpoint)
  }

  /** @throws AdminError not_found; method_not_allowed with the methods that are */
  match(method: string, path: string): RouteMatch {
    const given = segmentsOf(path)
    // A fixed segment wins over a parameter: `/certificates/bulk-revoke` is no serial number.
    const fitting = [...this.#routes.values()].filter(({ segments }) => fits(segments, given))
    fitting.sort((a, b) => parametersOf(a) - parametersOf(b))
    const [route] = fitting
    if (!route) throw notFound('resource')
    const endpoint = route.byMethod.get(method === 'HEAD' ? 'GET' : method)
    if (!endpoint) {
      const allow = [...route.byMethod.keys()]
      throw new AdminError('method_not_allowed', `${allow.join(' or ')} is allowed here`, { allow })
    }
    const params = route.segments.flatMap((segment, index) =>
      isParameter(segment) ? [[segment.slice(1, -1), given[index] as string]] : [],
    )
    return { endpoint, params: Object.fromEntries(params) }
  }

  #add(path: string, endpoint: AnyEndpoint): void {
    const pattern = path.replaceAll(/\{[^}]+\}/g, '{}')
    const route = this.#routes.get(pattern) ?? { segments: path.split('/'), byMethod: new Map() }
    if (route.byMethod.has(endpoint.method)) throw new Error(`two endpoints for ${endpoint.method} ${path}`)
    route.byMethod.set(endpoint.method, endpoint)
    this.#routes.set(pattern, route)
  }
}

const isParameter = (segment: string) => segment.startsWith('{')
const parametersOf = ({ segments }: Route) => segments.filter(isParameter).length

function fits(segments: readonly string[], given: readonly string[]): boolean {
  return (
    segments.length === given.length &&
    segments.every((segment, index) => (isParameter(segment) ? given[index] !== '' : segment === given[index]))
  )
}

/** Decoded; the first is empty. A slash at the end counts for nothing. */
export const segmentsOf = (path: string): string[] => path.replace(/\/$/, '').split('/').map(decode)

/** A broken escape fits no route. */
function decode(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return '\0'
  }
}
