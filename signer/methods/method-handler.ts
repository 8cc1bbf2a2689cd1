/** The type of a method handler, from the method table of the protocol. */

import type { MethodName, MethodParams, MethodResult } from '../protocol/methods.ts'

interface Call {
  /** When the client stops waiting, in the time of `performance.now()`. */
  deadlineAt: number
  /** Identifies the client connection; every call of one connection has the same object. */
  connection: object
}

interface Reply<M extends MethodName> {
  meta: MethodResult<M>
  payload?: Buffer
}

/** Refuses by throwing SignerRefusal or SignerUnavailable. */
export type MethodHandler<M extends MethodName> = (
  params: MethodParams<M>,
  payload: Buffer,
  call: Call,
) => Reply<M> | Promise<Reply<M>>

export type MethodHandlers = { [M in MethodName]: MethodHandler<M> }
