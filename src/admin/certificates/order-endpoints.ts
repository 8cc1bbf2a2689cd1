/** `/orders` and `/authorizations`: what accounts have ordered, and how names were validated. */

import type { DatabasePool } from 'slonik'
import * as z from 'zod/v4'
import { requireFound } from '../../domain/admin-error.ts'
import { type Scope, scopeOf } from '../../domain/permissions.ts'
import { AUTHORIZATION_STATUSES, ORDER_STATUSES, orderStatus } from '../../domain/states.ts'
import { uuidTime } from '../../shared/lib/uuid.ts'
import { type ChallengeType, challengeId } from '../../shared/protocol/challenge.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import { placeParameters, readAtPlace } from '../pages.ts'
import { ORDER_FILTERS } from '../resources/accounts.ts'
import { parametersOf, time, timeOrNull, timestamp, uuid } from '../schemas.ts'
import { accountNameMember, withAccountName, withAccountNames } from './account-list.ts'
import { createInspectStore, type InspectedAuthorization } from './inspect-store.ts'
import { type ListedOrder, listOrders, skipOfOrders } from './order-list.ts'

const Identifier = z.strictObject({ type: z.string(), value: z.string() }).meta({ id: 'Identifier' })
const Facts = z.record(z.string(), z.unknown())

const Order = z
  .strictObject({
    id: z.uuid(),
    account_id: z.uuid(),
    account_name: accountNameMember(),
    status: z.enum(ORDER_STATUSES),
    identifiers: z.array(Identifier),
    created_at: timestamp(),
    expires_at: timestamp(),
    certificate_id: z.uuid().nullable(),
    error: Facts.nullable(),
  })
  .meta({ id: 'Order' })

const Challenge = z
  .strictObject({
    id: z.uuid(),
    type: z.string(),
    status: z.string(),
    tries: z.int(),
    validated_at: z.string().nullable(),
    error: Facts.nullable(),
  })
  .meta({ id: 'Challenge' })

const Authorization = z
  .strictObject({
    id: z.uuid(),
    account_id: z.uuid(),
    account_name: accountNameMember(),
    identifier: Identifier,
    wildcard: z.boolean(),
    status: z.enum(AUTHORIZATION_STATUSES),
    expires_at: timestamp(),
    challenges: z.array(Challenge),
    evidence: Facts.nullable().meta({
      description: 'Questions of the deciding attempt, the servers it asked, and its findings.',
    }),
  })
  .meta({ id: 'Authorization' })

const OrderDetails = z
  .strictObject({
    ...Order.shape,
    profile: z.string(),
    not_before: timestamp().nullable(),
    not_after: timestamp().nullable(),
    authorizations: z.array(Authorization),
  })
  .meta({ id: 'OrderDetails' })

function orderBody(order: ListedOrder & { account_name: string | null }): z.input<typeof Order> {
  const { id, account_id, account_name, status, identifiers, expires_at, certificate_id, error } = order
  return {
    id,
    account_id,
    account_name,
    status,
    identifiers: identifiers.map(({ type, value }) => ({ type, value })),
    created_at: time(uuidTime(id)),
    expires_at: time(expires_at),
    certificate_id,
    error,
  }
}

/** Without the token: a reply ends up in tickets. */
function authorizationBody(
  authorization: InspectedAuthorization & { account_name: string | null },
): z.input<typeof Authorization> {
  const { id, account_id, account_name, identifier_type: type, identifier_value: value } = authorization
  const { wildcard, status, expires_at, offered, attempts, evidence } = authorization
  const challenges = offered.map((kind) => ({
    id: challengeId(authorization, kind as ChallengeType),
    type: kind,
    status: attempts[kind]?.status ?? 'pending',
    tries: attempts[kind]?.tries ?? 0,
    validated_at: attempts[kind]?.validated ?? null,
    error: attempts[kind]?.error ?? null,
  }))
  return {
    id,
    account_id,
    account_name,
    identifier: { type, value },
    wildcard,
    status,
    expires_at: time(expires_at),
    challenges,
    evidence: evidence && { ...evidence },
  }
}

export const ORDERS = endpointGroup('Orders', {
  listOrders: endpoint({
    route: 'GET /orders',
    permission: 'read_accounts',
    scope: 'accounts',
    query: z.strictObject({
      ...parametersOf(ORDER_FILTERS),
      ...placeParameters(),
    }),
    reply: { status: 200, schema: z.array(Order) },
    async handle({ query, author }, { db, pages }) {
      const { limit, offset, cursor, ...chosen } = query
      const filter = { ...chosen, scope: scopeOf(author) }
      const { rows, ...page } = await readAtPlace(
        { limit, offset, cursor },
        pages,
        (after, most) => listOrders(db, filter, after, most),
        skipOfOrders(db, filter),
      )
      return { body: (await withAccountNames(db, rows)).map(orderBody), ...page }
    },
  }),
  getOrder: endpoint({
    route: 'GET /orders/{order_id}',
    permission: 'read_accounts',
    scope: 'accounts',
    params: z.strictObject({ order_id: uuid() }),
    reply: { status: 200, schema: OrderDetails },
    async handle({ params, author }, { db }) {
      const { order, authorizations } = await findOrder(db, params.order_id, scopeOf(author))
      const { profile, not_before, not_after } = order
      return {
        body: {
          ...orderBody(await withAccountName(db, order)),
          profile,
          not_before: timeOrNull(not_before),
          not_after: timeOrNull(not_after),
          authorizations: (await withAccountNames(db, authorizations)).map(authorizationBody),
        },
      }
    },
  }),
  getAuthorization: endpoint({
    route: 'GET /authorizations/{authorization_id}',
    permission: 'read_accounts',
    scope: 'accounts',
    params: z.strictObject({ authorization_id: uuid() }),
    reply: { status: 200, schema: Authorization },
    async handle({ params, author }, { db }) {
      const found = await createInspectStore(db, scopeOf(author)).findAuthorization(params.authorization_id)
      return { body: authorizationBody(await withAccountName(db, requireFound(found, 'authorization'))) }
    },
  }),
})

/** An order has its authorizations in the order of its identifiers. */
async function findOrder(db: DatabasePool, id: string, scope: Scope) {
  const { order, authorizations } = requireFound(await createInspectStore(db, scope).findOrder(id), 'order')
  const statuses = authorizations.map(({ status }) => status)
  const facts = { stored: order.status, expiresAt: order.expires_at, authorizations: statuses }
  return { order: { ...order, status: orderStatus(facts, new Date()) }, authorizations }
}
