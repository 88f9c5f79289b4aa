"""A FastAPI service that allows five requests per minute and address: see README.md."""

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse
from slidegate.asgi import RateLimitMiddleware

app = FastAPI()
app.add_middleware(RateLimitMiddleware, rules="5/minute")


@app.get("/", response_class=PlainTextResponse)
async def hello():
    return "hello\n"
