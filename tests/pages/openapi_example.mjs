// An OpenAPI 3.1 document with what documents may hold: references (also to themselves, and with words beside
// them), choices, merged schemas, enums, defaults, examples, shared parameters. Its operations are this server's.
export const openapiExample = {
  openapi: "3.1.0",
  info: { title: "Example", version: "1.2.3", description: "What **every** answer has: `usage`.\n\n* one\n* two" },
  tags: [{ name: "Ranking", description: "Best first." }, { name: "Unused" }],
  security: [{ key: [] }],
  paths: {
    "/v1/rerank": {
      post: {
        tags: ["Ranking"], operationId: "rerank", summary: "Rank documents",
        description: "Scores are `P(yes)`.\n\n```\ncurl …\n```",
        requestBody: { content: { "application/json": {
          schema: { $ref: "#/components/schemas/RerankRequest" },
          examples: { web: { summary: "two documents", value: { query: "a web server", documents: ["nginx", "gimp"] } } },
        } } },
        responses: {
          200: { description: "The ranking", headers: { "X-Request-Id": { description: "of this request" } },
                 content: { "application/json": { schema: { $ref: "#/components/schemas/Answer" } } } },
          400: { $ref: "#/components/responses/Error" },
        },
      },
    },
    "/v1/models": {
      get: { summary: "The served model", responses: { 200: { description: "A list" } } },
    },
    "/health": {
      get: { tags: ["Ranking"], security: [], summary: "Whether it serves",
             responses: { 200: { description: "It does" } } },
    },
    "/things/{id}": {
      parameters: [{ name: "id", in: "path", required: true, schema: { type: "string", examples: ["a/b"] } }],
      get: {
        parameters: [{ $ref: "#/components/parameters/Order" }],
        responses: { default: { description: "<img src=x onerror=alert(1)>" } },
      },
    },
  },
  components: {
    parameters: { Order: { name: "order", in: "query", description: "Which first",
                           schema: { type: "string", enum: ["up", "down"], default: "up" } } },
    responses: { Error: { description: "A mistake", content: { "application/json": {
      schema: { $ref: "#/components/schemas/Error~1Body" } } } } },
    schemas: {
      RerankRequest: {
        type: "object", required: ["query", "documents"],
        properties: {
          query: { type: "string", description: "May be empty." },
          documents: { type: "array", minItems: 1, maxItems: 2048, items: { oneOf: [
            { type: "string" }, { $ref: "#/components/schemas/Document" }] } },
          top_n: { type: ["integer", "null"], minimum: 0, default: null },
        },
      },
      Document: { type: "object", required: ["text"], properties: { text: { type: "string" } } },
      Answer: { allOf: [{ $ref: "#/components/schemas/Named" },
                        { type: "object", properties: { children: { type: "array",
                          items: { $ref: "#/components/schemas/Answer" } } } }] },
      Named: { type: "object", required: ["id"], properties: { id: { type: "string", description: "Its name" } } },
      "Error/Body": { type: "object", properties: { error: { $ref: "#/components/schemas/Named",
                                                             description: "Said beside the reference" } } },
    },
  },
};
