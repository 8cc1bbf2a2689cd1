/** The text of a configuration file: an object as the YAML library writes it, with comments above its keys. */

import { Document, isNode, type Node, Pair, Scalar, YAMLMap, YAMLSeq } from 'yaml'

type Value = string | number | boolean | Node | readonly (Value | Noted)[] | Section

/** A key without a value is left out. */
export interface Section {
  readonly [key: string]: Value | Noted | undefined
}

class Noted {
  readonly lines: readonly string[]
  readonly value: Value

  constructor(lines: readonly string[], value: Value) {
    this.lines = lines
    this.value = value
  }
}

/** A value with the lines of comment that stand above its key, or above it in a list. */
export const noted = (comment: string | readonly string[], value: Value): Noted => new Noted([comment].flat(), value)

/** An answer of the operator: in quotes it is a text, whatever it looks like. */
export function quoted(answer: string): Node {
  const scalar = new Scalar(answer)
  scalar.type = Scalar.QUOTE_DOUBLE
  return scalar
}

/** The place of a secret that comes from a variable of the environment. */
export const variable = (name: string): Node => quoted(`\${${name}}`)

/** Lists of texts take one line each, and no line is broken. */
export const configText = (section: Section): string =>
  new Document(nodeOf(section)).toString({ flowCollectionPadding: false, lineWidth: 0 })

function nodeOf(value: Value): Node {
  if (isNode(value)) return value
  if (Array.isArray(value)) return listOf(value)
  if (typeof value !== 'object') return new Scalar(value)
  const map = new YAMLMap<Node, Node>()
  for (const [name, given] of Object.entries(value)) {
    if (given === undefined) continue
    map.items.push(new Pair(commented(new Scalar(name), given), nodeOf(bare(given))))
  }
  return map
}

function listOf(values: readonly (Value | Noted)[]): Node {
  const list = new YAMLSeq<Node>()
  list.items = values.map((given) => commented(nodeOf(bare(given)), given))
  list.flow = !list.items.some((item) => item instanceof YAMLMap)
  return list
}

const bare = (given: Value | Noted): Value => (given instanceof Noted ? given.value : given)

function commented(node: Node, given: Value | Noted): Node {
  if (given instanceof Noted) node.commentBefore = given.lines.map((line) => ` ${line}`).join('\n')
  return node
}
