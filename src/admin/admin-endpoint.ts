/**
 * One description of each endpoint: the router, validation, roles, errors, OpenAPI document, manual
 * and role test are made from it.
 */

import type { z } from 'zod/v4'
import type { AdminErrorCode } from '../domain/admin-error.ts'
import type { Role } from '../domain/administrator.ts'
import type { ActToApprove } from '../domain/approval.ts'
import type { AuditAction } from '../domain/audit-chain.ts'
import { type Permission, rolesOf, type ScopedPermission, type ScopeName } from '../domain/permissions.ts'
import type { Header } from '../http/http-message.ts'
import type { ActMeans, AdminContext } from './context.ts'
import type { SignedIn } from './users/sign-in.ts'

export const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const
type Method = (typeof METHODS)[number]

type Shape = z.ZodType | undefined
type Output<S extends Shape> = S extends z.ZodType ? z.output<S> : undefined

interface EndpointRequest<P, Q, B, A> {
  params: P
  query: Q
  body: B
  /** Undefined for an endpoint that asks for no token. */
  author: A
  address: string
  /** The client says it; at most 200 printable characters. */
  userAgent: string | undefined
  requestId: string
  /** How many things another person has approved, where the act has such a number. */
  approved?: { most: number | null }
}

export interface Answer<R> {
  /** The success status of the description when absent. */
  status?: number
  body?: R
  /** The JSON of `body` as octets in shared memory. */
  octets?: Uint8Array
  /** Query of the next page, without filters; becomes Link rel=next. */
  next?: Readonly<Record<string, string>> | undefined
  /** The search for these rows was cut off. */
  isCut?: boolean
  headers?: readonly Header[]
  /** Lines of a streamed body, one or more together, without the last line break. */
  lines?: AsyncIterable<string>
}

/** Its name says what a registrar reaches by it. */
const SELF = 'use_session' satisfies ScopedPermission

/** The permission that an endpoint needs; `none`: it needs no token. An endpoint for registrars says what they reach. */
type Access =
  | { permission: Exclude<Permission, ScopedPermission> | typeof SELF | 'none'; scope?: never }
  | { permission: Exclude<ScopedPermission, typeof SELF>; scope: ScopeName }

/** Always, or for some requests. */
type InPerson<R> = true | ((request: R, context: AdminContext) => boolean | Promise<boolean>)

/** One endpoint; its group gives it name and tag (`endpointGroup`). */
interface EndpointDescription<P extends Shape, Q extends Shape, B extends Shape, R extends Shape> {
  /** The path is below the base path, with parameters in braces: `GET /users/{user_id}`. */
  route: `${Method} /${string}`
  /** Further paths with the same meaning. */
  aliases?: readonly string[]
  /** Refused for an API token: what outlives the token, takes over its maker, or replaces validation. */
  needsSession?: InPerson<EndpointRequest<Output<P>, Output<Q>, Output<B>, SignedIn>>
  /** Also for a session that still lacks the second factor that is required. */
  enrols?: true
  /** Refused for a session whose sign-in is older than `admin_api.recent_sign_in_seconds`. */
  recentSignIn?: InPerson<EndpointRequest<Output<P>, Output<Q>, Output<B>, SignedIn>>
  /** Describes what another person has to approve; undefined where `admin_api.approvals` wants nobody. */
  approval?(
    request: EndpointRequest<Output<P>, Output<Q>, Output<B>, SignedIn>,
    means: ActMeans,
  ): Promise<ActToApprove | undefined>
  /** The reply has a secret. After an approval, its maker collects it. */
  showsOnce?: true
  /** It waits for the OpenID Connect provider. */
  asksProvider?: true
  params?: P
  query?: Q
  body?: B
  /** A missing or empty body counts as `{}`. */
  bodyIsOptional?: true
  /** 204 has no schema. */
  reply: { status: 200 | 201 | 202 | 204; orStatus?: 202; schema?: R; contentType?: string }
  /** Errors that do not follow from the description (`errorsOf`); `params` bring not_found. */
  errors?: readonly AdminErrorCode[]
  /** The entry that the audit log gets when something has changed. */
  audit?: AuditAction
  handle(
    request: EndpointRequest<Output<P>, Output<Q>, Output<B>, SignedIn>,
    context: AdminContext,
  ): Promise<Answer<R extends z.ZodType ? z.input<R> : never>>
}

export interface AnyEndpoint extends EndpointDescription<Shape, Shape, Shape, Shape> {
  summary: string
  permission: Permission | 'none'
  /** These roles have the permission. */
  roles: readonly Role[] | 'none'
  scope?: ScopeName
  /** operationId of the OpenAPI document, and the name in the typed client. */
  id: string
  tag: string
  method: Method
  /** Empty for the base path itself. */
  path: string
}

/** Checks the types of one endpoint. */
export function endpoint<
  P extends Shape = undefined,
  Q extends Shape = undefined,
  B extends Shape = undefined,
  R extends Shape = undefined,
>(description: EndpointDescription<P, Q, B, R> & Access): EndpointDescription<P, Q, B, R> & Access {
  return description
}

/** The answer of 204, when the work is done. */
export async function withoutBody(work: Promise<void>): Promise<Answer<never>> {
  await work
  return {}
}

/** @param group endpoints by operationId @param tag of the OpenAPI document */
export function endpointGroup<G extends Readonly<Record<string, { route: string } & Access>>>(
  tag: string,
  group: G,
): G {
  const named = Object.entries(group).map(([id, description]) => {
    const [method, path] = description.route.split(' ')
    const { permission } = description
    const roles = permission === 'none' ? permission : rolesOf(permission)
    const scope = permission === SELF ? 'self' : description.scope
    return [id, { ...description, roles, scope, id, tag, method, path: path === '/' ? '' : path }]
  })
  return Object.fromEntries(named)
}
