/**
 * A process that runs commands of `chancery` one after the other, each as `src/cli/main.ts` would: a process of its own
 * for each spends half a second on loading the same modules. Commands arrive over IPC, as does what became of them.
 */

import { localProgram } from '../../src/cli/program.ts'
import { remoteProgram } from '../../src/cli/remote/remote-program.ts'
import { runProgram } from '../../src/shared/command-line.ts'

export interface CommandRequest {
  id: number
  words: readonly string[]
  env: Record<string, string>
}

export interface CommandEnd {
  id: number
  code: number
  stdout: string
  stderr: string
}

/** What this stream is given until the returned function is called, which returns it. */
function capture(stream: NodeJS.WriteStream): () => string {
  const pieces: string[] = []
  const write = stream.write
  stream.write = (piece: string | Uint8Array, ...rest: unknown[]) => {
    pieces.push(typeof piece === 'string' ? piece : Buffer.from(piece).toString())
    const done = rest.at(-1)
    if (typeof done === 'function') process.nextTick(done)
    return true
  }
  return () => {
    stream.write = write
    return pieces.join('')
  }
}

const environment = { ...process.env }

async function run({ id, words, env }: CommandRequest): Promise<CommandEnd> {
  process.env = { ...environment, ...env }
  const [stdout, stderr] = [capture(process.stdout), capture(process.stderr)]
  process.exitCode = 0
  const isRemote = words.some((word) => /^--server(?:=|$)/.test(word))
  try {
    await runProgram(await (isRemote ? remoteProgram(words) : localProgram(words)), words)
    return { id, code: Number(process.exitCode), stdout: stdout(), stderr: stderr() }
  } finally {
    process.exitCode = 0
  }
}

let last: Promise<unknown> = Promise.resolve()
process.on('message', (request: CommandRequest) => {
  last = last.then(() => run(request)).then((end) => process.send?.(end))
})
process.on('disconnect', () => process.exit())
