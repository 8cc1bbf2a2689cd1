/** Performs what another person has approved: the endpoint's own handler, on values that are checked again. */

import { AdminError } from '../../domain/admin-error.ts'
import type { SentValues } from '../../domain/approval.ts'
import type { AnyEndpoint } from '../admin-endpoint.ts'
import type { AdminContext } from '../context.ts'
import { readRequest } from '../request-values.ts'
import type { SignedIn } from '../users/sign-in.ts'
import type { ApprovedAct, Operations } from './approvals.ts'

/** @param context of all handlers; the act gets a log of its own */
export function approvedOperations(endpoints: readonly AnyEndpoint[], context: () => AdminContext): Operations {
  const find = (operation: string) => endpoints.find(({ id }) => id === operation)
  const require = (operation: string) => {
    const endpoint = find(operation)
    if (!endpoint) throw new AdminError('conflict', `this release has no operation ${operation}`)
    return endpoint
  }
  const requestOf = (endpoint: AnyEndpoint, input: SentValues, { id, maker }: Pick<ApprovedAct, 'id' | 'maker'>) => ({
    ...readRequest(endpoint, input),
    author: maker as SignedIn,
    address: maker.ipAddress ?? '',
    requestId: id,
    userAgent: undefined,
  })
  return {
    rolesOf(operation) {
      const roles = find(operation)?.roles
      return roles === undefined || roles === 'none' ? [] : roles
    },
    async describe(operation, input, by, db) {
      const endpoint = require(operation)
      return endpoint.approval?.(requestOf(endpoint, input, by), { policy: context().policy, db })
    },
    async perform(operation, input, { audit, most, ...by }) {
      const endpoint = require(operation)
      const request = { ...requestOf(endpoint, input, by), approved: { most } }
      const { body } = await endpoint.handle(request, { ...context(), audit })
      return { secret: endpoint.showsOnce ? body : undefined }
    },
  }
}
