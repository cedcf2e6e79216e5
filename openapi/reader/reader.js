/*
 * The page at /docs: shows the OpenAPI document of this service, and sends requests. It loads everything from the service,
 * because its policy allows no other script and no other host.
 */

/** From the other script, which runs before this one: both are deferred. */
const { SwaggerUIBundle } = window

const response = await fetch('/openapi.json')
if (!response.ok) throw new Error(`/openapi.json: ${response.status}`)
const spec = await response.json()

// Every route accepts `Bearer`, so the user types the key once, whichever schemes the document lists for a group.
const { bearer } = spec.components.securitySchemes
spec.components.securitySchemes = { bearer }
for (const operation of Object.values(spec.paths).flatMap((path) => Object.values(path))) {
  if (operation.security) operation.security = [{ bearer: [] }]
}

SwaggerUIBundle({ spec, domNode: document.querySelector('#reader'), deepLinking: true, validatorUrl: null })
