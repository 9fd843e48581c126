"""What plug-in authors and our own tests share: contracts to subclass, and small real stand-ins."""
