/*
 * The page at /docs: shows the document of this service, and sends what is tried. All is from here: the page's policy lets
 * the browser run no other script, and ask no other host.
 */

/** The script beside this one, which is there before: both are deferred. */
const { SwaggerUIBundle } = window

const response = await fetch('/openapi.json')
if (!response.ok) throw new Error(`/openapi.json: ${response.status}`)
const spec = await response.json()

// Every route takes the key behind `Bearer`: so it is typed once, whatever else the document says that a group takes.
const { bearer } = spec.components.securitySchemes
spec.components.securitySchemes = { bearer }
for (const operation of Object.values(spec.paths).flatMap((path) => Object.values(path))) {
  if (operation.security) operation.security = [{ bearer: [] }]
}

SwaggerUIBundle({ spec, domNode: document.querySelector('#reader'), deepLinking: true, validatorUrl: null })
