/** Completions of a shell: behind the words typed so far it offers the next word of a command, and its options. */

import type { Command, Program } from '../../src/shared/command-line.ts'

/** Words typed so far, joined by spaces → what may follow. */
type Choices = Map<string, { words: Map<string, string>; options: Map<string, string> }>

function choicesOf({ commands }: Program): Choices {
  const choices: Choices = new Map()
  const at = (typed: string) => {
    const known = choices.get(typed) ?? { words: new Map<string, string>(), options: new Map<string, string>() }
    choices.set(typed, known)
    return known
  }
  for (const one of commands) {
    const words = one.usage.split(' ').filter((word) => /^[^<]/.test(word))
    for (const [index, word] of words.entries()) {
      const { words: next } = at(words.slice(0, index).join(' '))
      const isLast = index === words.length - 1
      if (isLast || !next.has(word)) next.set(word, isLast ? summaryOf(one) : '')
    }
    const { options } = at(words.join(' '))
    for (const [name, { sentence }] of Object.entries(one.options ?? {})) options.set(`--${name}`, sentence)
    options.set('--help', 'Show what the command does')
  }
  return choices
}

const summaryOf = ({ about }: Command) => [about].flat()[0] ?? ''
const quoted = (value: string) => `'${value.replaceAll("'", "'\\''")}'`
const functionName = (program: string) => `_${program.replaceAll('-', '_')}`

/** Options with their values are no words of a command; where a value is meant, files are offered. */
export function bashCompletion(program: Program): string {
  const cases = [...choicesOf(program)].map(
    ([typed, { words, options }]) =>
      `    ${quoted(typed)}) words=${quoted([...words.keys()].join(' '))} options=${quoted([...options.keys()].join(' '))} ;;`,
  )
  return `# bash completion for ${program.name}
${functionName(program.name)}() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD - 1]} typed='' words='' options='' word before=''
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD - 1}"; do
    if [[ $word != -* && $before != -?* ]]; then typed+=\${typed:+ }$word; fi
    before=$word
  done
  case $typed in
${cases.join('\n')}
  esac
  COMPREPLY=()
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
  elif [[ -n $words && $previous != -?* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  fi
}
complete -o default -F ${functionName(program.name)} ${program.name}
`
}

export function zshCompletion(program: Program): string {
  const described = (all: Map<string, string>) =>
    [...all].map(([word, about]) => quoted(`${word.replaceAll(':', '\\:')}:${about}`)).join(' ')
  const cases = [...choicesOf(program)].map(
    ([typed, { words, options }]) =>
      `  ${quoted(typed)}) next=(${described(words)}) options=(${described(options)}) ;;`,
  )
  return `#compdef ${program.name}
local -a next options
local typed='' before='' word
for word in \${words[2,CURRENT-1]}; do
  if [[ $word != -* && $before != -?* ]]; then typed+="\${typed:+ }$word"; fi
  before=$word
done
case $typed in
${cases.join('\n')}
esac
if [[ $PREFIX == -* ]]; then
  _describe -o option options
elif [[ -n $next && $words[CURRENT-1] != -?* ]]; then
  _describe command next
else
  _files
fi
`
}

export function fishCompletion(program: Program): string {
  const { name } = program
  const isAt = `_${functionName(name)}_at`
  const rows = [...choicesOf(program)].flatMap(([typed, { words, options }]) => {
    const condition = `-n ${quoted(`${isAt} ${quoted(typed)}`)}`
    return [
      ...[...words].map(
        ([word, about]) => `complete -c ${name} -f ${condition} -a ${quoted(word)} -d ${quoted(about)}`,
      ),
      ...[...options].map(
        ([flag, about]) => `complete -c ${name} ${condition} -l ${flag.slice(2)} -d ${quoted(about)}`,
      ),
    ]
  })
  return `# fish completion for ${name}
function ${isAt} --description 'Whether exactly these words of a command are typed'
  set -l typed
  set -l before ''
  for word in (commandline -opc)[2..]
    if not string match -q -- '-*' $word; and not string match -q -- '-?*' $before
      set -a typed $word
    end
    set before $word
  end
  test "$typed" = "$argv[1]"
end
${rows.join('\n')}
`
}
