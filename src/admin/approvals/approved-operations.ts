/** Performs what another person has approved: the endpoint's own handler, on values that are checked again. */

import { AdminError } from '../../domain/admin-error.ts'
import type { AnyEndpoint } from '../admin-endpoint.ts'
import type { AdminContext } from '../context.ts'
import { readRequest } from '../request-values.ts'
import type { SignedIn } from '../users/sign-in.ts'
import type { Operations } from './approvals.ts'

/** @param context of all handlers; the act gets a log of its own */
export function approvedOperations(endpoints: readonly AnyEndpoint[], context: () => AdminContext): Operations {
  const find = (operation: string) => endpoints.find(({ id }) => id === operation)
  return {
    rolesOf(operation) {
      const roles = find(operation)?.roles
      return roles === undefined || roles === 'none' ? [] : roles
    },
    async perform(operation, input, { id, maker, most, audit }) {
      const endpoint = find(operation)
      if (!endpoint) throw new AdminError('conflict', `this release has no operation ${operation}`)
      const by = { author: maker as SignedIn, address: maker.ipAddress ?? '', requestId: id, userAgent: undefined }
      const request = { ...readRequest(endpoint, input), ...by, approved: { most } }
      const { body } = await endpoint.handle(request, { ...context(), audit })
      return { secret: endpoint.showsOnce ? body : undefined }
    },
  }
}
