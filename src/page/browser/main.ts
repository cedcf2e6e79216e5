import { html, render } from 'htm/preact'
import { App } from './app.ts'
import { takeKeyFromAddress } from './base/session.ts'

const place = document.getElementById('page')
if (place) {
  takeKeyFromAddress()
  addEventListener('hashchange', takeKeyFromAddress)
  place.replaceChildren()
  render(html`<${App} />`, place)
}
