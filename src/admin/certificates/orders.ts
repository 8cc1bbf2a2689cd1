/** Orders and authorizations as administrators see them. */

import type { DatabasePool } from 'slonik'
import { notFound } from '../../domain/admin-error.ts'
import { orderStatus } from '../../domain/states.ts'
import { createInspectStore, type InspectedAuthorization } from '../../store/inspect-store.ts'
import { listOrders, type OrderFilter, skipOfOrders } from '../../store/order-list.ts'
import { type PageRequest, readPageOf } from '../list-pages.ts'

export class Orders {
  readonly #db: DatabasePool

  constructor(db: DatabasePool) {
    this.#db = db
  }

  list(filter: OrderFilter, page: PageRequest) {
    const skip = skipOfOrders(this.#db, filter)
    return readPageOf((after, limit) => listOrders(this.#db, filter, after, limit), page, skip)
  }

  /** With its authorizations, in the order of its identifiers. */
  async find(id: string) {
    const found = await createInspectStore(this.#db).findOrder(id)
    if (!found) throw notFound('order')
    const { order, authorizations } = found
    const statuses = authorizations.map(({ status }) => status)
    const facts = { stored: order.status, expiresAt: order.expires_at, authorizations: statuses }
    return { order: { ...order, status: orderStatus(facts, new Date()) }, authorizations }
  }

  async findAuthorization(id: string): Promise<InspectedAuthorization> {
    const found = await createInspectStore(this.#db).findAuthorization(id)
    return found ?? Promise.reject(notFound('authorization'))
  }
}
