/** A component that is drawn again only when one of its properties is another one. */

import { Component, type ComponentChildren, type ComponentType, h } from 'preact'

export function memo<P extends object>(draw: (props: P) => ComponentChildren): ComponentType<P> {
  return class extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      const former = this.props as Record<string, unknown>
      return Object.entries(next).some(([name, value]) => former[name] !== value)
    }

    override render() {
      return h(draw as ComponentType<P>, this.props as P & { children?: never })
    }
  }
}
