"""The code that `test_check.py` checks jobs against."""

from __future__ import annotations

from dataclasses import dataclass

from headway import Headway, Schedule

hw = Headway()


@hw.task(schedule=Schedule("@yearly", input={"recipient": "a"}))
def welcome(recipient: str) -> None:
    """Takes another parameter than before."""


@hw.task(former_names=["hello"], aliases={"who": "name"})
def greet(name: str) -> None:
    """Was called otherwise, and so was its parameter."""


@dataclass
class Basket:
    items: int = 0


shop = hw.flow("shop", state=Basket)


@shop.step
def pay(order: int) -> None:
    """The only step."""
