/** From the trees that the inspector gives to shares of parts; pure. */

import type { AllocationNode, CallFrame, CpuProfile } from './capture.ts'
import { OTHER, partOf, placeOf } from './parts.ts'

/** Weights (samples or bytes) by part, and by function for what is in no part. */
export interface Shares {
  total: number
  parts: Map<string, number>
  otherFunctions: Map<string, number>
  /** Of all parts, named with the part, for whoever wants to look closer. */
  functions: Map<string, number>
}

/** Time in which a thread had nothing to do is left out. */
export function cpuShares({ nodes }: CpuProfile): Shares {
  const shares = emptyShares()
  const children = new Set(nodes.flatMap((node) => node.children ?? []))
  const byId = new Map(nodes.map((node) => [node.id, node]))
  const visit = (id: number, above: readonly CallFrame[]): void => {
    const node = byId.get(id)
    if (!node || node.callFrame.functionName === '(idle)') return
    const stack = [node.callFrame, ...above]
    add(shares, stack, node.hitCount ?? 0)
    for (const child of node.children ?? []) visit(child, stack)
  }
  for (const { id } of nodes) if (!children.has(id)) visit(id, [])
  return shares
}

export function allocationShares(head: AllocationNode): Shares {
  const shares = emptyShares()
  const visit = (node: AllocationNode, above: readonly CallFrame[]): void => {
    const stack = [node.callFrame, ...above]
    add(shares, stack, node.selfSize)
    for (const child of node.children) visit(child, stack)
  }
  visit(head, [])
  return shares
}

function emptyShares(): Shares {
  return { total: 0, parts: new Map(), otherFunctions: new Map(), functions: new Map() }
}

function add(shares: Shares, stack: readonly CallFrame[], weight: number): void {
  if (weight === 0) return
  shares.total += weight
  const part = partOf(stack)
  const name = nameOf(stack)
  addTo(shares.parts, part, weight)
  addTo(shares.functions, `${name} [${part}]`, weight)
  if (part === OTHER) addTo(shares.otherFunctions, name, weight)
}

/** A native function is known by who calls it. */
function nameOf(stack: readonly CallFrame[]): string {
  const caller = stack.findIndex(({ url }) => url !== '')
  return stack
    .slice(0, caller < 0 ? 1 : caller + 1)
    .map(({ functionName, url }) => `${functionName || '(anonymous)'}${url === '' ? '' : ` ${placeOf(url)}`}`)
    .join(' ← ')
}

export function addTo(sums: Map<string, number>, key: string, weight: number): void {
  sums.set(key, (sums.get(key) ?? 0) + weight)
}
