/** Errors of the actor runtime, and the data form in which any error crosses threads. */

import { inspect } from 'node:util'

/** All three codes mean "not now": the HTTP edge answers 503 with Retry-After. */
type ActorErrorCode = 'mailbox_full' | 'stopped' | 'deadline'

export class ActorError extends Error {
  override readonly name = 'ActorError'
  readonly code: ActorErrorCode

  constructor(code: ActorErrorCode, message: string) {
    super(message)
    this.code = code
  }
}

/**
 * An error from another thread, with its original `name`. `properties` are the error's plain
 * members (`type`, `status`, `code`, …).
 */
export class RemoteError extends Error {
  readonly properties: Readonly<Record<string, Primitive>>

  constructor(data: ErrorData) {
    super(data.message)
    this.name = data.name
    this.properties = data.properties
    // The original stack shows where the error happened.
    if (data.stack !== undefined) this.stack = data.stack
  }
}

type Primitive = string | number | boolean

export interface ErrorData {
  name: string
  message: string
  stack: string | undefined
  properties: Record<string, Primitive>
}

/** Accepts any thrown value and never throws. */
export function toErrorData(thrown: unknown): ErrorData {
  if (!(thrown instanceof Error)) {
    return { name: 'Error', message: `thrown: ${inspect(thrown)}`, stack: undefined, properties: {} }
  }
  const properties: Record<string, Primitive> = {}
  for (const [key, value] of Object.entries(thrown)) {
    if (key !== 'name' && isPrimitive(value)) properties[key] = value
  }
  return { name: thrown.name, message: thrown.message, stack: thrown.stack, properties }
}

/** The inverse of `toErrorData`. An ActorError becomes an ActorError again. */
export function fromErrorData(data: ErrorData): Error {
  if (data.name === 'ActorError') return new ActorError(data.properties['code'] as ActorErrorCode, data.message)
  return new RemoteError(data)
}

function isPrimitive(value: unknown): value is Primitive {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
}
